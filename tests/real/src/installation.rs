//! Where the built servers live: a cache outside the source tree, keyed by version, shared by all clones.

use std::env;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Not;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// The Kubernetes release that Steersman targets, and whose servers `tests/real/servers` pins.
pub const KUBERNETES: &str = "v1.36.3";
/// The etcd release that `tests/real/etcd` pins: the one Kubernetes 1.36 is released with.
pub const ETCD: &str = "v3.6.8";
/// The helm that `tests/real/helm` pins.
pub const HELM: &str = "v3.19.5";
/// The Kubernetes commands a test cluster needs, the slowest to build first.
pub const KUBERNETES_COMMANDS: [&str; 4] = [
    "kube-apiserver",
    "kube-controller-manager",
    "kubectl",
    "kube-scheduler",
];

/// A set of server binaries of one Kubernetes version.
#[derive(Clone, Debug)]
pub struct Installation {
    pub kubernetes_version: String,
    kubernetes: PathBuf,
    etcd: PathBuf,
}

impl Installation {
    /// The folders for a Kubernetes version like `v1.36.3`, whether or not anything is built there.
    pub fn of(kubernetes_version: &str) -> Result<Installation> {
        let real = cache_directory()?.join("real");
        Ok(Installation {
            kubernetes_version: kubernetes_version.to_owned(),
            kubernetes: real.join(format!("kubernetes-{kubernetes_version}")),
            etcd: real.join(format!("etcd-{ETCD}")),
        })
    }

    /// The pinned version, if all of it is built. The error names what is missing and the remedy.
    pub fn pinned() -> Result<Installation> {
        Installation::of(KUBERNETES)?.complete()
    }

    /// The newest built version of a minor release, for example 35, with all of its commands.
    pub fn of_minor(minor: u32) -> Result<Installation> {
        newest_of_minor(minor)?.complete()
    }

    /// As `of_minor`, where the API server and its etcd suffice.
    pub fn serving(minor: u32) -> Result<Installation> {
        newest_of_minor(minor)?.with(&["kube-apiserver", "etcd"])
    }

    pub fn command(&self, name: &str) -> PathBuf {
        if name == "etcd" {
            self.etcd.join(name)
        } else {
            self.kubernetes.join(name)
        }
    }

    /// Our own program on client-go.
    pub fn informers(&self) -> PathBuf {
        self.own("informers", include_str!("../servers/informers/main.go"))
    }

    /// Our own program that prints the structs of pod templates, and their hashes.
    pub fn templates(&self) -> PathBuf {
        self.own("templates", include_str!("../servers/templates/main.go"))
    }

    /// Named after what it is built from: another source is another file.
    fn own(&self, name: &str, source: &str) -> PathBuf {
        let mut hasher = DefaultHasher::new();
        source.hash(&mut hasher);
        self.kubernetes
            .join(format!("{name}-{:016x}", hasher.finish()))
    }

    /// Every binary of the set, in the order in which they are worth building.
    pub fn commands(&self) -> impl Iterator<Item = PathBuf> + '_ {
        KUBERNETES_COMMANDS
            .iter()
            .chain(&["etcd"])
            .map(|name| self.command(name))
    }

    fn complete(self) -> Result<Installation> {
        let all = [&KUBERNETES_COMMANDS[..], &["etcd"]].concat();
        self.with(&all)
    }

    fn with(self, commands: &[&str]) -> Result<Installation> {
        let mut paths = commands.iter().map(|name| self.command(name));
        if let Some(missing) = paths.find(|path| !path.is_file()) {
            let minor = self.kubernetes_version.split('.').nth(1).unwrap_or("N");
            bail!(
                "{} is not built; run `cargo xtask real build --minor {minor}`",
                missing.display()
            );
        }
        Ok(self)
    }
}

/// Where helm is, or will be.
pub fn helm() -> Result<PathBuf> {
    Ok(cache_directory()?
        .join("real")
        .join(format!("helm-{HELM}"))
        .join("helm"))
}

/// helm for a test; as with the servers, it may be missing where a person works, and must be there with `CI=true`.
pub fn helm_for_test() -> Option<PathBuf> {
    let helm = helm().ok()?;
    if helm.is_file() {
        return Some(helm);
    }
    assert!(
        env::var("CI").is_ok_and(|value| value == "true").not(),
        "CI=true and helm is missing: `cargo xtask real build` builds it"
    );
    say("skipped: helm is not built; run `cargo xtask real build`");
    None
}

/// The newest version of a minor release that has a folder, whatever is in that.
fn newest_of_minor(minor: u32) -> Result<Installation> {
    let real = cache_directory()?.join("real");
    let prefix = format!("kubernetes-v1.{minor}.");
    let mut versions: Vec<(u32, String)> = Vec::new();
    for entry in std::fs::read_dir(&real).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(patch) = name.strip_prefix(&prefix) else {
            continue;
        };
        let number = patch
            .chars()
            .take_while(char::is_ascii_digit)
            .collect::<String>();
        versions.push((number.parse().unwrap_or(0), format!("v1.{minor}.{patch}")));
    }
    versions.sort();
    match versions.pop() {
        Some((_, version)) => Installation::of(&version),
        None => {
            bail!("no servers of 1.{minor} are built; run `cargo xtask real build --minor {minor}`")
        }
    }
}

/// `$STEERSMAN_CACHE`, else `$XDG_CACHE_HOME/steersman`, else `~/.cache/steersman`.
pub fn cache_directory() -> Result<PathBuf> {
    let from = |name: &str| {
        env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    from("STEERSMAN_CACHE")
        .or_else(|| from("XDG_CACHE_HOME").map(|cache| cache.join("steersman")))
        .or_else(|| from("HOME").map(|home| home.join(".cache/steersman")))
        .context("no place for the server cache: set STEERSMAN_CACHE, XDG_CACHE_HOME or HOME")
}

/// Our own binary: `$STEERSMAN_BIN`, else `steersman` beside the running test in the target folder.
pub fn steersman_binary() -> Result<PathBuf> {
    if let Some(path) = env::var_os("STEERSMAN_BIN").map(PathBuf::from) {
        return if path.is_file() {
            Ok(path)
        } else {
            bail!(
                "STEERSMAN_BIN names {}, which is not a file",
                path.display()
            )
        };
    }
    let running = env::current_exe().context("cannot tell where this program lies")?;
    let candidates = running
        .ancestors()
        .skip(1)
        .take(2)
        .map(|folder: &Path| folder.join("steersman"));
    candidates.into_iter().find(|path| path.is_file()).context(
        "the steersman binary is not built; run `cargo build -p steersman` or set STEERSMAN_BIN",
    )
}

/// The pinned servers for a test, or `None` (with one line on stderr) where they are not built and
/// may be missing. In continuous integration (`CI=true`) they must be there.
pub fn for_test() -> Option<Installation> {
    match Installation::pinned() {
        Ok(installation) => Some(installation),
        Err(error) if env::var("CI").is_ok_and(|value| value == "true") => {
            panic!("CI=true and the real servers are missing: {error:#}")
        }
        Err(error) => {
            say(&format!("skipped: {error:#}"));
            None
        }
    }
}

/// One line for the person at the terminal, past the capture of test output: what is skipped must be
/// seen although the test passes.
pub fn say(line: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "{line}");
}
