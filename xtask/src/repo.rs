// SPDX-License-Identifier: Apache-2.0
//! Where the repository is, which files belong to it, what its crates declare.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The repository's top folder: the one above this crate's.
pub(crate) fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here)
}

/// The cargo that runs us, so that every part is built by the same toolchain.
pub(crate) fn cargo() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned())
}

/// Every file that is tracked or would be (not ignored), relative to the top folder, sorted.
pub(crate) fn files() -> Result<Vec<PathBuf>, String> {
    let listing = output(Command::new("git").args([
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ]))?;
    let mut files: Vec<PathBuf> = listing
        .split('\0')
        .filter(|name| !name.is_empty())
        .map(PathBuf::from)
        // A file deleted but not yet committed is still listed.
        .filter(|path| root().join(path).is_file())
        .collect();
    files.sort();
    files.dedup();
    Ok(files)
}

/// What the workspace's own manifests declare, as cargo understands them. Needs no network.
pub(crate) fn metadata() -> Result<Value, String> {
    let text = output(Command::new(cargo()).args([
        "metadata",
        "--no-deps",
        "--offline",
        "--format-version",
        "1",
    ]))?;
    serde_json::from_str(&text).map_err(|why| format!("cargo metadata printed no JSON: {why}"))
}

/// The integration tests of the workspace: each package's name, and the test's.
pub(crate) fn integration_tests() -> Result<Vec<(String, String)>, String> {
    let metadata = metadata()?;
    let each = |value: &Value, of: &str| value[of].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value["name"].as_str().unwrap_or_default().to_owned();
    let mut tests = Vec::new();
    for package in each(&metadata, "packages") {
        let targets = each(&package, "targets").into_iter();
        let ours = targets.filter(|target| each(target, "kind").iter().any(|kind| kind == "test"));
        tests.extend(ours.map(|target| (text(&package), text(&target))));
    }
    Ok(tests)
}

/// The folder of the package that has this source of a program of tests: `src/lib.rs` of `helio_units`, `tests/story/main.rs` of `story`.
pub(crate) fn package_with(source: &str, program: &str) -> Result<PathBuf, String> {
    let metadata = metadata()?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let folders = packages.filter_map(|package| {
        let folder = Path::new(package["manifest_path"].as_str()?).parent()?;
        let targets = package["targets"].as_array().into_iter().flatten();
        let mut ours = targets.filter(|target| {
            let name = target["name"].as_str().unwrap_or_default().replace('-', "_");
            name == program.replace('-', "_")
                && target["src_path"]
                    .as_str()
                    .is_some_and(|path| folder.join(source) == Path::new(path))
        });
        ours.next().map(|_| folder.to_path_buf())
    });
    let found: Vec<PathBuf> = folders.collect();
    match &found[..] {
        [one] => Ok(one.clone()),
        _ => Err(format!("{} packages have tests {program} from {source}", found.len())),
    }
}

/// The hash of what HEAD holds. A commit of the same files has the same one.
pub(crate) fn tree() -> Result<String, String> {
    tree_of(root())
}

/// The same of another checkout.
pub(crate) fn tree_of(checkout: &Path) -> Result<String, String> {
    let mut git = Command::new("git");
    git.arg("-C").arg(checkout).args(["rev-parse", "HEAD^{tree}"]);
    output(&mut git).map(|hash| hash.trim().to_owned())
}

/// What is not as in HEAD, a line a file.
pub(crate) fn changes() -> Result<String, String> {
    output(Command::new("git").args(["status", "--porcelain"]))
}

/// A folder that outlives the checkout, for what is made once: `$XDG_CACHE_HOME/heliograph`, else `~/.cache/heliograph`.
pub(crate) fn cache() -> Result<PathBuf, String> {
    let named = std::env::var_os("XDG_CACHE_HOME").filter(|path| Path::new(path).is_absolute());
    let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache"));
    let folder = named.map(PathBuf::from).or_else(home);
    Ok(folder.ok_or("neither XDG_CACHE_HOME nor HOME is set")?.join("heliograph"))
}

/// Runs a command in the top folder and returns what it printed.
pub(crate) fn output(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let told = command
        .current_dir(root())
        .output()
        .map_err(|why| format!("cannot start {name}: {why}"))?;
    if !told.status.success() {
        return Err(format!("{name} failed: {}", String::from_utf8_lossy(&told.stderr).trim()));
    }
    Ok(String::from_utf8_lossy(&told.stdout).into_owned())
}
