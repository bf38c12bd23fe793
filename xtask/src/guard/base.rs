// SPDX-License-Identifier: Apache-2.0
//! The cost at the commit that set the committed numbers, measured on this machine with this compiler.

use super::NUMBERS;
use super::measure::measure;
use super::numbers::{Costs, Numbers};
use crate::repo;
use std::path::Path;
use std::process::Command;

/// Measures the commit that changed the numbers last. What was measured once with a compiler is kept.
///
/// # Errors
/// The repository has no such commit, or it cannot be measured.
pub(super) fn costs(compiler: &str, target: &Path) -> Result<Costs, String> {
    let commit = git(repo::root(), &["log", "-1", "--format=%H", "--", NUMBERS])?;
    if commit.is_empty() {
        return Err(format!("no commit has {NUMBERS}: the numbers must be committed first"));
    }
    let folder = repo::cache()?.join("guard");
    let kept = folder.join(format!("{commit}-{}.txt", file_name(compiler)));
    if let Ok(text) = std::fs::read_to_string(&kept) {
        return Ok(Numbers::parse(&text)?.costs);
    }
    println!("measuring commit {} with {compiler}", &commit[..12]);
    let checkout = folder.join(&commit);
    let fails = |why: std::io::Error| format!("{}: {why}", folder.display());
    std::fs::create_dir_all(&folder).map_err(fails)?;
    if checkout.exists() {
        std::fs::remove_dir_all(&checkout).map_err(fails)?;
    }
    let place = checkout.to_string_lossy().into_owned();
    git(repo::root(), &["clone", "--quiet", "--shared", "--no-checkout", ".", &place])?;
    git(&checkout, &["checkout", "--quiet", "--detach", &commit])?;
    // In the same place as the present one: crates of others are not built again.
    let costs = measure(&checkout, target)?.costs;
    let comments = vec![format!("# Commit {commit}")];
    let numbers = Numbers { comments, compiler: compiler.to_owned(), costs };
    std::fs::write(&kept, numbers.to_string()).map_err(fails)?;
    std::fs::remove_dir_all(&checkout).map_err(fails)?;
    Ok(numbers.costs)
}

/// A compiler as a part of a file's name.
fn file_name(compiler: &str) -> String {
    compiler.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}

fn git(folder: &Path, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new("git").current_dir(folder).args(arguments).output();
    let output = output.map_err(|why| format!("cannot start git: {why}"))?;
    if !output.status.success() {
        return Err(format!("git failed: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
