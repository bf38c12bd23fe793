// SPDX-License-Identifier: Apache-2.0
//! A folder and the processes that play in it. Both are gone when the stage is, however that comes about.
//!
//! Every process gets a group of its own, so that a Ctrl-C in the terminal reaches us alone and we decide in
//! which order things end; and each has asked the kernel to be killed when we die, so that even our own
//! SIGKILL leaves no daemon behind.

use anyhow::{Context, Result, anyhow};
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, getpid, getppid, kill_process_group,
    set_parent_process_death_signal, waitid,
};
use std::fs::{DirBuilder, File};
use std::io::{self, Read};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Folders of dead processes with our number that are passed over before giving up.
const MOST_NAMES: u32 = 100;

/// The owner of folder and processes.
pub(super) struct Stage {
    props: Arc<Props>,
}

/// What there is to clear away. Shared with whoever hears the signals.
pub(super) struct Props {
    folder: PathBuf,
    /// Running processes; none once everything was cleared away and nothing may start any more.
    children: Mutex<Option<Vec<Child>>>,
}

/// What a process said, standard output and error in the order they came, and how it ended.
pub(super) struct Told {
    pub(super) status: ExitStatus,
    pub(super) text: String,
}

impl Stage {
    /// Makes the folder, for its owner alone.
    pub(super) fn new() -> Result<Self> {
        let above = std::env::temp_dir();
        let above = above
            .canonicalize()
            .with_context(|| format!("the directory for temporary files, {}", above.display()))?;
        for number in 0..MOST_NAMES {
            let name = format!("helio-quickstart-{}-{number}", std::process::id());
            let folder = above.join(name);
            match DirBuilder::new().mode(0o700).create(&folder) {
                Ok(()) => {
                    let children = Mutex::new(Some(Vec::new()));
                    return Ok(Self { props: Arc::new(Props { folder, children }) });
                }
                // Left by an earlier process of our number, which was killed.
                Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {}
                Err(why) => {
                    return Err(why).with_context(|| format!("cannot make {}", folder.display()));
                }
            }
        }
        Err(anyhow!("{} contains {MOST_NAMES} left-over directories of helio", above.display()))
    }

    /// The folder.
    pub(super) fn folder(&self) -> &Path {
        &self.props.folder
    }

    /// What a signal has to clear away.
    pub(super) fn props(&self) -> Arc<Props> {
        Arc::clone(&self.props)
    }

    /// Starts a process that says what it has to say into the file `log` of the folder.
    pub(super) fn start(&self, command: &mut Command, log: &str) -> Result<Pid> {
        let file = File::options().create(true).append(true).open(self.folder().join(log));
        let (stdout, stderr) = file.and_then(|file| Ok((file.try_clone()?, file)))?;
        self.spawn(command.stdout(stdout).stderr(stderr))
    }

    /// Runs a process to its end.
    pub(super) fn run(&self, mut command: Command) -> Result<Told> {
        let (mut said, pipe) = io::pipe()?;
        let pid = self.spawn(command.stdout(pipe.try_clone()?).stderr(pipe))?;
        // It holds our copies of the writing end, without which reading finds an end.
        drop(command);
        let mut text = Vec::new();
        said.read_to_end(&mut text)?;
        let status = self.wait(pid)?;
        Ok(Told { status, text: String::from_utf8_lossy(&text).into_owned() })
    }

    /// How a process ended, if it has.
    pub(super) fn ended(&self, pid: Pid) -> Result<Option<ExitStatus>> {
        let mut children = self.props.lock();
        match children.iter_mut().flatten().find(|child| Pid::from_child(child) == pid) {
            Some(child) => Ok(child.try_wait()?),
            None => Err(anyhow!("the process is not ours")),
        }
    }

    /// Kills a process with SIGKILL, and all it started; nothing of it runs when this returns.
    pub(super) fn kill(&self, pid: Pid) -> Result<ExitStatus> {
        // It can only fail for want of a receiver.
        let _ = kill_process_group(pid, Signal::KILL);
        self.wait(pid)
    }

    fn spawn(&self, command: &mut Command) -> Result<Pid> {
        let mut children = self.props.lock();
        let Some(children) = children.as_mut() else { return Err(anyhow!("the stage is cleared")) };
        command.current_dir(self.folder()).stdin(Stdio::null()).process_group(0);
        die_with_us(command);
        let name = command.get_program().to_string_lossy().into_owned();
        let child = command.spawn().with_context(|| format!("cannot start {name}"))?;
        let pid = Pid::from_child(&child);
        children.push(child);
        Ok(pid)
    }

    /// Waits without the lock, so that a signal can clear the stage meanwhile; collects under it, so that a
    /// number is never signalled once it may be somebody else's.
    fn wait(&self, pid: Pid) -> Result<ExitStatus> {
        waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)?;
        let mut children = self.props.lock();
        let children = children.as_mut().ok_or_else(|| anyhow!("the stage is cleared"))?;
        let place = children.iter().position(|child| Pid::from_child(child) == pid);
        let place = place.ok_or_else(|| anyhow!("the process is not ours"))?;
        Ok(children.swap_remove(place).wait()?)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.props.clear();
    }
}

impl Props {
    /// Ends every process and removes the folder; from then on nothing starts.
    pub(super) fn clear(&self) {
        let Some(children) = self.lock().take() else { return };
        for mut child in children {
            // One that has ended by itself may have left others in its group; and whoever cannot be
            // signalled has ended.
            let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
            let _ = child.wait();
        }
        if let Err(why) = std::fs::remove_dir_all(&self.folder) {
            eprintln!("cannot remove {}: {why}", self.folder.display());
        }
    }

    /// Whether it was cleared: then an error elsewhere is a consequence, and no news.
    pub(super) fn is_cleared(&self) -> bool {
        self.lock().is_none()
    }

    /// A panic under the lock leaves the list whole, so it stays usable.
    fn lock(&self) -> MutexGuard<'_, Option<Vec<Child>>> {
        self.children.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Has the kernel kill the process when the thread that starts it dies; here that is the main thread.
#[expect(unsafe_code, reason = "what a child does between fork and exec is for us to answer for")]
fn die_with_us(command: &mut Command) {
    let us = getpid();
    let ask = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // We may have died before the request was made; then nobody would deliver it.
        if getppid() == Some(us) { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
    };
    // SAFETY: between fork and exec only system calls without locks or allocation are allowed. These are two
    // of them, and an error made of a number.
    unsafe { command.pre_exec(ask) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn sh(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_stage_takes_its_processes_and_its_folder_along() {
        let stage = Stage::new().expect("a folder can be made");
        let folder = stage.folder().to_owned();
        let mode = folder.metadata().expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        let pid = stage.start(&mut sh("sleep 600 & wait"), "log").expect("there is a shell");
        assert!(stage.ended(pid).expect("it is ours").is_none());
        drop(stage);
        assert!(!folder.exists());
        assert!(rustix::process::test_kill_process(pid).is_err(), "it was killed and collected");
    }

    #[test]
    fn a_process_is_heard_to_its_end_in_the_folder() {
        let stage = Stage::new().expect("a folder can be made");
        let told = stage.run(sh("echo out; echo err >&2; pwd; exit 3")).expect("there is a shell");
        let here = stage.folder().display().to_string();
        assert_eq!(told.text, format!("out\nerr\n{here}\n"));
        assert_eq!(told.status.code(), Some(3));
    }

    #[test]
    fn nothing_starts_on_a_cleared_stage() {
        let stage = Stage::new().expect("a folder can be made");
        stage.props().clear();
        assert!(stage.props().is_cleared());
        assert!(stage.run(sh("true")).is_err());
    }
}
