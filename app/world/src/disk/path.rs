// SPDX-License-Identifier: Apache-2.0
//! Calls on a disk that name their file by a path. There are no symbolic links; a relative path begins at the top.

use super::{Body, Content, Disk, Inode, TOP};
use helio_driver::{Errno, Mode, OFlags};
use helio_units::Moment;
use std::ffi::{OsStr, OsString};
use std::path::{Component, Path, PathBuf};

impl Disk {
    /// What is at a path.
    pub(crate) fn find(&self, path: &Path) -> Result<Inode, Errno> {
        let mut at = vec![TOP];
        for part in path.components() {
            let here = *at.last().unwrap_or(&TOP);
            match part {
                Component::Normal(name) => {
                    self.folder(here)?;
                    at.push(self.names.find(here, name).ok_or(Errno::NOENT)?);
                }
                Component::ParentDir if at.len() > 1 => drop(at.pop()),
                Component::ParentDir
                | Component::RootDir
                | Component::CurDir
                | Component::Prefix(_) => {}
            }
        }
        if path.as_os_str().is_empty() { Err(Errno::NOENT) } else { Ok(*at.last().unwrap_or(&TOP)) }
    }

    fn folder(&self, inode: Inode) -> Result<Inode, Errno> {
        match self.node(inode)?.body {
            Body::Folder => Ok(inode),
            Body::File(_) | Body::Socket => Err(Errno::NOTDIR),
        }
    }

    /// The folder that a path is in, and its name there.
    fn place<'a>(&self, path: &'a Path) -> Result<(Inode, &'a OsStr), Errno> {
        let name = path.file_name().ok_or(Errno::BUSY)?;
        let above = path.parent().filter(|above| !above.as_os_str().is_empty());
        Ok((self.folder(self.find(above.unwrap_or(Path::new("/")))?)?, name))
    }

    fn add(&mut self, path: &Path, body: Body, mode: Mode, now: Moment) -> Result<Inode, Errno> {
        let (folder, name) = self.place(path)?;
        if self.names.find(folder, name).is_some() {
            return Err(Errno::EXIST);
        }
        let inode = self.create(body, mode, now);
        self.names.change(vec![((folder, name.to_owned()), Some(inode))]);
        Ok(inode)
    }

    /// Finds what is to be opened, or creates it.
    pub(crate) fn open(
        &mut self,
        path: &Path,
        flags: OFlags,
        mode: Mode,
        now: Moment,
    ) -> Result<Inode, Errno> {
        let found = match self.find(path) {
            Err(Errno::NOENT) if flags.contains(OFlags::CREATE) => {
                let body = Body::File(Content::new());
                return self.add(path, body, mode, now);
            }
            found => found?,
        };
        let writes = super::Access::of(flags).writes;
        match &self.node(found)?.body {
            _ if flags.contains(OFlags::CREATE | OFlags::EXCL) => Err(Errno::EXIST),
            Body::Folder if writes => Err(Errno::ISDIR),
            Body::File(_) if flags.contains(OFlags::DIRECTORY) => Err(Errno::NOTDIR),
            Body::Socket => Err(Errno::NXIO),
            Body::File(_) if flags.contains(OFlags::TRUNC) && writes => {
                let stamp = self.change().stamp;
                self.content_mut(found)?.set_length(stamp, 0);
                Ok(found)
            }
            Body::File(_) | Body::Folder => Ok(found),
        }
    }

    pub(crate) fn make_folder(
        &mut self,
        path: &Path,
        mode: Mode,
        now: Moment,
    ) -> Result<(), Errno> {
        if self.find(path).is_ok() {
            return Err(Errno::EXIST);
        }
        self.add(path, Body::Folder, mode, now).map(drop)
    }

    /// Gives a listening Unix socket its name.
    pub(crate) fn make_socket(&mut self, path: &Path, now: Moment) -> Result<Inode, Errno> {
        let mode = Mode::RUSR | Mode::WUSR;
        self.add(path, Body::Socket, mode, now).map_err(|errno| match errno {
            Errno::EXIST => Errno::ADDRINUSE,
            errno => errno,
        })
    }

    pub(crate) fn rename(&mut self, from: &Path, to: &Path) -> Result<(), Errno> {
        let inode = self.find(from)?;
        let (old, old_name) = self.place(from)?;
        let (new, new_name) = self.place(to)?;
        let replaced = self.names.find(new, new_name);
        if replaced == Some(inode) {
            return Ok(());
        }
        let is_folder = self.folder(inode).is_ok();
        if let Some(replaced) = replaced {
            match (is_folder, self.folder(replaced).is_ok()) {
                (true, false) => return Err(Errno::NOTDIR),
                (false, true) => return Err(Errno::ISDIR),
                (true, true) => self.is_empty(replaced)?,
                (false, false) => {}
            }
        }
        let gone = ((old, old_name.to_owned()), None);
        self.names.change(vec![gone, ((new, new_name.to_owned()), Some(inode))]);
        if let Some(replaced) = replaced {
            self.forget(replaced);
        }
        Ok(())
    }

    fn is_empty(&self, folder: Inode) -> Result<(), Errno> {
        if self.names.list(folder).is_empty() { Ok(()) } else { Err(Errno::NOTEMPTY) }
    }

    pub(crate) fn remove(&mut self, path: &Path, folder: bool) -> Result<(), Errno> {
        let inode = self.find(path)?;
        let (parent, name) = self.place(path)?;
        match (self.folder(inode).is_ok(), folder) {
            (true, false) => return Err(Errno::ISDIR),
            (false, true) => return Err(Errno::NOTDIR),
            (true, true) => self.is_empty(inode)?,
            (false, false) => {}
        }
        self.names.change(vec![((parent, name.to_owned()), None)]);
        self.forget(inode);
        Ok(())
    }

    pub(crate) fn list(&self, path: &Path) -> Result<Vec<OsString>, Errno> {
        Ok(self.names.list(self.folder(self.find(path)?)?))
    }

    /// The path without dots.
    pub(crate) fn real_path(&self, path: &Path) -> Result<PathBuf, Errno> {
        self.find(path)?;
        let mut real = PathBuf::from("/");
        for part in path.components() {
            match part {
                Component::Normal(name) => real.push(name),
                Component::ParentDir => drop(real.pop()),
                Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
            }
        }
        Ok(real)
    }
}
