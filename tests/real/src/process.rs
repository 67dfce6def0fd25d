//! A server as a child process that cannot outlive its user.
//!
//! The child leads a process group of its own and writes to a log file. Beside it runs a guard: a
//! shell that waits for the end of its standard input, which only this process holds open. Drop
//! stops the child; if this process dies in any other way, the pipe closes and the guard does.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::wait::{self, Seen};

/// How many lines of a log a failure shows: what a Go program said before it panicked, and its stack.
const SHOWN_LINES: usize = 40;
/// How long a server may take from SIGTERM to its end before it is killed: kube-apiserver waits up to
/// a minute for its open connections.
const STOP_DEADLINE: Duration = Duration::from_secs(90);
/// Clock ticks per second in `/proc/<pid>/stat`: fixed at 100 in Linux's user interface on all of
/// the architectures that Kubernetes is released for.
const TICKS_PER_SECOND: f64 = 100.0;
/// A controller that cannot get on says so repeatedly; one or two errors are a start or a race.
const TOLERATED_REPETITIONS: usize = 4;

/// etcd takes 64 MB for its log and as much for the next one, before anything is stored.
const ENOUGH_KILOBYTES: u64 = 256 * 1024;

pub struct Process {
    name: String,
    child: Child,
    guard: Child,
    log: PathBuf,
}

/// What a process has used so far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Usage {
    pub cpu_seconds: f64,
    pub resident_bytes: u64,
    /// The part of it that is no file's: heap and stacks.
    pub anonymous_bytes: u64,
    pub peak_resident_bytes: u64,
}

/// The CPU time of each thread of a process in nanoseconds, where hundredths of a second are too coarse.
#[derive(Clone, Debug, PartialEq)]
pub struct CpuTimes(BTreeMap<String, u64>);

impl CpuTimes {
    /// Seconds that were used since an earlier look. What threads used that have ended since is not seen.
    pub fn seconds_since(&self, earlier: &CpuTimes) -> f64 {
        let used = self.0.iter().map(|(thread, nanoseconds)| {
            nanoseconds.saturating_sub(earlier.0.get(thread).copied().unwrap_or(0))
        });
        used.sum::<u64>() as f64 / 1e9
    }
}

impl Process {
    /// Starts `program`, with its output appended to `<logs>/<name>.log`.
    pub fn start(name: &str, program: &Path, arguments: &[String], logs: &Path) -> Result<Process> {
        use std::os::unix::process::CommandExt;
        let log = logs.join(format!("{name}.log"));
        let output = File::options()
            .create(true)
            .append(true)
            .open(&log)
            .with_context(|| format!("cannot write the log {}", log.display()))?;
        let child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let guard = Command::new("sh")
            .args([
                "-c",
                "read -r _; kill -s KILL -- -$1 2>/dev/null",
                "guard",
                &child.id().to_string(),
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .context("cannot start sh, which guards the servers of a test cluster")?;
        Ok(Process {
            name: name.to_owned(),
            child,
            guard,
            log,
        })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn log(&self) -> &Path {
        &self.log
    }

    /// How it ended, if it did.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Sends a signal (`TERM`, `STOP`, `CONT`, …) to the whole group.
    pub fn signal(&self, signal: &str) -> Result<()> {
        let group = format!("-{}", self.child.id());
        let sent = Command::new("sh")
            .args(["-c", "kill -s $1 -- $2", "signal", signal, &group])
            .output()?;
        anyhow::ensure!(
            sent.status.success(),
            "cannot send SIG{signal} to {}: {}",
            self.name,
            String::from_utf8_lossy(&sent.stderr).trim()
        );
        Ok(())
    }

    /// Asks it to end, waits, and kills it if it does not.
    pub fn stop(mut self) -> Result<ExitStatus> {
        self.signal("TERM")?;
        wait::until(
            &format!("{} to end after SIGTERM", self.name),
            STOP_DEADLINE,
            || {
                Ok(match self.child.try_wait()? {
                    Some(status) => Seen::Ready(status),
                    None => Seen::NotYet("still running".to_owned()),
                })
            },
        )
    }

    /// Kills it at once, as a crash would.
    pub fn kill(mut self) {
        self.end();
    }

    pub fn usage(&self) -> Result<Usage> {
        usage_of(self.child.id()).with_context(|| format!("cannot measure {}", self.name))
    }

    pub fn cpu_times(&self) -> Result<CpuTimes> {
        cpu_times_of(self.child.id()).with_context(|| format!("cannot measure {}", self.name))
    }

    /// The end of its log, for a failure that a person reads.
    pub fn last_lines(&self) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        let shown = &lines[lines.len().saturating_sub(SHOWN_LINES)..];
        format!(
            "last lines of {}:\n    {}",
            self.log.display(),
            shown.join("\n    ")
        )
    }

    /// The errors that its log has repeatedly, in the format of klog, and how often.
    pub fn repeated_errors(&self) -> Result<BTreeMap<String, usize>> {
        let log = fs::read_to_string(&self.log)
            .with_context(|| format!("cannot read {}", self.log.display()))?;
        Ok(repeated_errors(&log))
    }

    fn end(&mut self) {
        if self.ended().is_none() {
            // The group first, for children of the child; the child itself in any case.
            let _ = self.signal("KILL");
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        let _ = self.guard.kill();
        let _ = self.guard.wait();
    }
}

/// The command that runs a program whose files cannot grow beyond so many kilobytes, as on a disk that is full.
pub fn limited(program: &Path, arguments: &[String], kilobytes: u64) -> (PathBuf, Vec<String>) {
    // The signal of a file that has grown too large is ignored, so that the write fails instead.
    let script = "trap '' XFSZ; ulimit -f \"$1\"; shift; exec \"$@\"";
    let mut all = vec!["-c".to_owned(), script.to_owned(), "limited".to_owned()];
    // `sh` counts in blocks of 512 bytes.
    all.push((kilobytes * 2).to_string());
    all.push(program.display().to_string());
    all.extend(arguments.iter().cloned());
    (PathBuf::from("sh"), all)
}

/// The command that runs a program which may have so many files open, sockets included.
pub fn with_open_files(program: &Path, arguments: &[String], files: u32) -> (PathBuf, Vec<String>) {
    let script = "ulimit -n \"$1\"; shift; exec \"$@\"";
    let mut all = vec!["-c".to_owned(), script.to_owned(), "limited".to_owned()];
    all.push(files.to_string());
    all.push(program.display().to_string());
    all.extend(arguments.iter().cloned());
    (PathBuf::from("sh"), all)
}

/// A sentence for failures if hardly anything fits on the disk of a folder any more: servers that cannot write
/// cannot say so in their logs either.
pub(crate) fn full_disk(folder: &Path) -> Option<String> {
    let listed = Command::new("df").arg("-Pk").arg(folder).output().ok()?;
    let free = free_kilobytes(&String::from_utf8_lossy(&listed.stdout))?;
    (free < ENOUGH_KILOBYTES).then(|| {
        format!(
            "; the disk of {} is full ({} MB are free): make room, or set TMPDIR to another place",
            folder.display(),
            free / 1024
        )
    })
}

/// The fourth word of the last line.
fn free_kilobytes(listed: &str) -> Option<u64> {
    let last = listed.lines().last()?;
    last.split_whitespace().nth(3)?.parse().ok()
}

/// Lets real time pass, for tests of what happens at some moment and not when something has happened.
pub fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// Removes a folder as soon as this process is gone, however it ends. Hold on to what is returned.
pub fn remove_when_we_end(folder: &Path) -> Result<Child> {
    use std::os::unix::process::CommandExt;
    // A second, because the servers that write there are ended at the same moment.
    Command::new("sh")
        .args(["-c", "read -r _; sleep 1; rm -rf -- \"$1\"", "cleaner"])
        .arg(folder)
        .stdin(Stdio::piped())
        .process_group(0)
        .spawn()
        .context("cannot start sh, which cleans up behind a test cluster")
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

/// What any process on this machine has used so far.
pub fn usage_of(pid: u32) -> Result<Usage> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))
        .with_context(|| format!("process {pid} is not running"))?;
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    parse_usage(&stat, &status).with_context(|| format!("/proc/{pid} does not read as expected"))
}

/// What a process used so far, thread by thread.
pub fn cpu_times_of(pid: u32) -> Result<CpuTimes> {
    let mut times = BTreeMap::new();
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        let thread = thread?;
        // A thread may end between the two looks.
        let Ok(text) = fs::read_to_string(thread.path().join("schedstat")) else {
            continue;
        };
        let spent = text.split_whitespace().next().unwrap_or_default();
        let spent = spent
            .parse()
            .context("schedstat does not begin with nanoseconds")?;
        times.insert(thread.file_name().to_string_lossy().into_owned(), spent);
    }
    Ok(CpuTimes(times))
}

fn repeated_errors(log: &str) -> BTreeMap<String, usize> {
    let mut errors = BTreeMap::new();
    for line in log.lines().filter(|line| line.starts_with('E')) {
        if line.contains("requestheader-client-ca-file") {
            // Any manager says so where no aggregation layer is configured.
            continue;
        }
        // `E1115 08:00:00.000000  123 file.go:12] "Message" ...`
        let what = line.split_once("] ").map_or(line, |(_, what)| what);
        *errors.entry(what.to_owned()).or_default() += 1;
    }
    errors.retain(|_, count| *count > TOLERATED_REPETITIONS);
    errors
}

fn parse_usage(stat: &str, status: &str) -> Option<Usage> {
    // The second field is the command in parentheses and may hold spaces: count from its end.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |index: usize| fields.get(index)?.parse::<f64>().ok();
    let kilobytes = |key: &str| {
        let line = status.lines().find(|line| line.starts_with(key))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok()
    };
    Some(Usage {
        cpu_seconds: (ticks(11)? + ticks(12)?) / TICKS_PER_SECOND,
        resident_bytes: kilobytes("VmRSS:")? * 1024,
        anonymous_bytes: kilobytes("RssAnon:")? * 1024,
        peak_resident_bytes: kilobytes("VmHWM:")? * 1024,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(name: &str) -> PathBuf {
        let folder =
            std::env::temp_dir().join(format!("steersman-process-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn usage_survives_a_command_name_with_spaces() {
        let stat = "42 (a b) c) S 1 42 42 0 -1 4194560 1 2 3 4 150 50 0 0 20 0 9 0 1 2 3";
        let status = "Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\nRssAnon:\t     512 kB\n";
        let usage = parse_usage(stat, status).unwrap();
        assert_eq!(
            usage,
            Usage {
                cpu_seconds: 2.0,
                resident_bytes: 1 << 20,
                anonymous_bytes: 1 << 19,
                peak_resident_bytes: 2 << 20
            }
        );
    }

    #[test]
    fn a_disk_is_full_when_a_server_could_not_start() {
        let listed =
            "Filesystem 1024-blocks Used Available Capacity Mounted on\n/dev/vda 100 90 10 90% /\n";
        assert_eq!(free_kilobytes(listed), Some(10));
        assert_eq!(free_kilobytes(""), None);
        assert_eq!(full_disk(Path::new("/no/such/folder")), None);
        let said = full_disk(Path::new("/proc")).unwrap();
        assert!(said.contains("the disk of /proc is full (0 MB"), "{said}");
    }

    #[test]
    fn cpu_is_summed_over_the_threads_that_are_there() {
        let times = |times: &[(&str, u64)]| {
            CpuTimes(
                times
                    .iter()
                    .map(|(thread, time)| ((*thread).to_owned(), *time))
                    .collect(),
            )
        };
        let before = times(&[("1", 1_000_000), ("2", 5_000_000)]);
        let after = times(&[("1", 4_000_000), ("3", 2_000_000)]);
        assert_eq!(after.seconds_since(&before), 0.005);
        assert!(
            cpu_times_of(std::process::id())
                .unwrap()
                .seconds_since(&before)
                > 0.0
        );
    }

    #[test]
    fn an_error_counts_when_it_comes_again_and_again() {
        let line = |number: usize, level: char, what: &str| {
            format!("{level}1115 08:00:0{number}.000000  12 file.rs:7] \"{what}\"\n")
        };
        let mut log = line(0, 'E', "once");
        for number in 0..5 {
            log += &line(number, 'E', "cannot list widgets");
            log += &line(number, 'W', "slow");
            log += &line(number, 'E', "no requestheader-client-ca-file");
        }
        let expected = [("\"cannot list widgets\"".to_owned(), 5)];
        assert_eq!(repeated_errors(&log), expected.into());
    }

    #[test]
    fn drop_ends_the_whole_group() {
        let logs = scratch("group");
        let script = ["-c", "sleep 300 & echo $!; wait"].map(str::to_owned);
        let process = Process::start("parent", Path::new("sh"), &script, &logs).unwrap();
        let log = process.log().to_owned();
        let grandchild: u32 = wait::until("the grandchild's id", Duration::from_secs(10), || {
            let text = fs::read_to_string(&log)?;
            Ok(match text.trim().parse() {
                Ok(id) => Seen::Ready(id),
                Err(_) => Seen::NotYet(text),
            })
        })
        .unwrap();
        drop(process);
        wait::until("the grandchild to end", Duration::from_secs(10), || {
            let state = fs::read_to_string(format!("/proc/{grandchild}/stat")).unwrap_or_default();
            let gone = state.is_empty() || state.contains(") Z ");
            Ok(if gone {
                Seen::Ready(())
            } else {
                Seen::NotYet(state)
            })
        })
        .unwrap();
        fs::remove_dir_all(logs).unwrap();
    }

    #[test]
    fn a_program_that_dies_shows_its_last_words() {
        let logs = scratch("words");
        let script = ["-c", "echo port 2379 is taken >&2; exit 3"].map(str::to_owned);
        let mut process = Process::start("etcd", Path::new("sh"), &script, &logs).unwrap();
        let status = wait::until("its end", Duration::from_secs(10), || {
            Ok(process
                .ended()
                .map_or(Seen::NotYet("running".to_owned()), Seen::Ready))
        });
        assert_eq!(status.unwrap().code(), Some(3));
        assert!(
            process.last_lines().ends_with("port 2379 is taken"),
            "{}",
            process.last_lines()
        );
        drop(process);
        fs::remove_dir_all(logs).unwrap();
    }
}
