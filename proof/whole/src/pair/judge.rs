// SPDX-License-Identifier: Apache-2.0
//! What is promised at the end of a story.

use super::run::Run;
use super::scenario::VolumeShape;
use crate::model::{Promise, Violation};
use helio_api::SetMemberState;
use std::path::PathBuf;

/// Copies that should be equal are not.
const fn differs(detail: String) -> Violation {
    Violation::new(Promise::SameCopies, detail)
}

impl Run {
    /// Every full member of both nodes has the same bytes, and they are what the clients may find.
    pub(super) fn judge(&mut self) -> Result<(), Violation> {
        // A group whose copies were both damaged is not in sync.
        for n in (0..self.groups.len())
            .filter(|n| self.groups[*n].shape.listed && self.is_level(*n))
            .collect::<Vec<_>>()
        {
            let volumes = self.groups[n].shape.volumes.clone();
            let mut images = Vec::new();
            for volume in &volumes {
                images.push(self.image(n, volume)?);
            }
            let images: Vec<&[u8]> = images.iter().map(Vec::as_slice).collect();
            self.groups[n].model.read_image(&images)?;
        }
        Ok(())
    }

    /// What all copies of a volume hold.
    fn image(&self, group: usize, volume: &VolumeShape) -> Result<Vec<u8>, Violation> {
        let mut image: Option<(String, Vec<u8>)> = None;
        for (node, it) in
            self.nodes.iter().enumerate().filter(|(node, _)| volume.members[*node] > 0)
        {
            let members = self.full_members(node, group, volume);
            if members.is_empty() {
                return Err(differs(format!("{} has no full member of {}", it.name, volume.name)));
            }
            for path in members {
                let shown = format!("{}:{}", it.name, path.display());
                let content = it.machine.content(&path);
                let content = content.map_err(|errno| differs(format!("{shown}: {errno}")))?;
                if content.len() as u64 != volume.size.0 {
                    return Err(differs(format!("{shown} has {} bytes", content.len())));
                }
                let Some((first, same)) = &image else {
                    image = Some((shown, content));
                    continue;
                };
                if let Some(at) = same.iter().zip(&content).position(|(one, other)| one != other) {
                    return Err(differs(format!("{shown} differs from {first} at byte {at}")));
                }
            }
        }
        Ok(image.map(|(_, content)| content).unwrap_or_default())
    }

    /// The members of a volume that its node says are full.
    pub(super) fn full_members(
        &self,
        node: usize,
        group: usize,
        volume: &VolumeShape,
    ) -> Vec<PathBuf> {
        let status = self.group_status(node, group);
        let told = status.and_then(|it| it.volumes.iter().find(|it| it.name == volume.name));
        let Some(told) = told else { return Vec::new() };
        // The status lists members only if there are several.
        if told.members.is_empty() {
            return vec![PathBuf::from(&told.member)];
        }
        let full = told.members.iter().filter(|it| it.state == SetMemberState::Full);
        full.map(|it| PathBuf::from(&it.path)).collect()
    }
}
