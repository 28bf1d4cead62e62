//! Child processes that never outlive the test, however it ends.
//!
//! Each is in a process group of its own, so Ctrl-C reaches only the test. The guardian is a shell that reads our pipe: it
//! is told the ids, and when the pipe closes without a farewell (the test was killed, or exited with a control plane in a
//! static) it kills those ids and removes the data.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};

use anyhow::{Context, Result};

/// Different free ports of the loopback address; all are held until the last is known.
pub fn free_ports<const N: usize>() -> Result<[u16; N]> {
    let held = std::array::from_fn::<_, N, _>(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)));
    let mut ports = [0; N];
    for (port, listener) in ports.iter_mut().zip(held.iter()) {
        let listener = listener
            .as_ref()
            .map_err(|error| anyhow::anyhow!("no free port: {error}"))?;
        *port = listener.local_addr()?.port();
    }
    Ok(ports)
}

/// The environment of a program.
pub enum Surroundings {
    /// That of the test.
    Inherited,
    /// These variables and nothing else.
    Only(Vec<(String, String)>),
}

/// One program of the control plane, or the operator.
pub struct Process {
    program: PathBuf,
    flags: Vec<String>,
    surroundings: Surroundings,
    log: PathBuf,
    child: Child,
}

impl Process {
    /// Starts the program with both outputs in the log.
    pub fn start(program: &Path, flags: Vec<String>, log: PathBuf, guardian: &mut Guardian) -> Result<Self> {
        Self::start_in(Surroundings::Inherited, program, flags, log, guardian)
    }

    /// The same with an environment of its own.
    pub fn start_in(
        surroundings: Surroundings,
        program: &Path,
        flags: Vec<String>,
        log: PathBuf,
        guardian: &mut Guardian,
    ) -> Result<Self> {
        let child = spawn(program, &flags, &surroundings, &log)?;
        let mut process = Self {
            program: program.to_owned(),
            flags,
            surroundings,
            log,
            child,
        };
        if let Err(error) = guardian.watch(process.id()) {
            process.end();
            return Err(error);
        }
        Ok(process)
    }

    /// Starts it once more with the same flags, after `end`.
    pub fn start_again(&mut self, guardian: &mut Guardian) -> Result<()> {
        self.end();
        self.child = spawn(&self.program, &self.flags, &self.surroundings, &self.log)?;
        guardian.watch(self.id())
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it has.
    pub fn exited(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Kills the process unless it has ended; nothing here has data worth a farewell.
    pub fn end(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// The end of the log, for a message.
    pub fn last_lines(&self) -> String {
        tail(&self.log).unwrap_or_else(|error| format!("{}: {error}", self.log.display()))
    }
}

fn spawn(program: &Path, flags: &[String], surroundings: &Surroundings, log: &Path) -> Result<Child> {
    let log = OpenOptions::new().create(true).append(true).open(log)?;
    let mut command = Command::new(program);
    if let Surroundings::Only(variables) = surroundings {
        command.env_clear().envs(variables.iter().cloned());
    }
    command
        .args(flags)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .process_group(0)
        .spawn()
        .with_context(|| format!("starting {}", program.display()))
}

fn tail(log: &Path) -> io::Result<String> {
    const BYTES: u64 = 2_000;
    let mut file = File::open(log)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(BYTES)))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The process that cleans up when the test cannot.
pub struct Guardian {
    child: Child,
    pipe: ChildStdin,
}

impl Guardian {
    // A killed program may write to its folder for another moment: hence the second removal.
    const SCRIPT: &'static str = r#"
        trap '' INT TERM HUP
        ids= ended=
        while read -r word id; do
            case "$word" in
                watch) ids="$ids $id" ;;
                forget) ended="$ended $id " ;;
                dismissed) exit 0 ;;
            esac
        done
        for id in $ids; do
            case "$ended" in *" $id "*) ;; *) kill -9 "$id" ;; esac
        done
        rm -rf -- "$1"; sleep 1; rm -rf -- "$1"
    "#;

    /// Starts the guardian of this data folder.
    pub fn start(data: &Path) -> Result<Self> {
        let mut child = Command::new("sh")
            .args(["-c", Self::SCRIPT, "control-plane-guardian"])
            .arg(data)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .context("starting sh")?;
        let pipe = child.stdin.take().context("the guardian's pipe")?;
        Ok(Self { child, pipe })
    }

    fn watch(&mut self, id: u32) -> Result<()> {
        writeln!(self.pipe, "watch {id}").context("telling the guardian")
    }

    /// Says that a process was ended by the test: its id may soon be somebody else's.
    pub fn forget(&mut self, id: u32) {
        // Without a guardian nobody kills by that id.
        let _ = writeln!(self.pipe, "forget {id}");
    }

    /// Lets the guardian go: everything has been ended.
    pub fn dismiss(&mut self) {
        // When it is gone already there is nothing to dismiss.
        let _ = writeln!(self.pipe, "dismissed");
        let _ = self.child.wait();
    }
}
