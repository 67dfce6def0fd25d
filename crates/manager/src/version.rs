//! The version this program answers to.

/// The Kubernetes release whose behaviour it has, with its own version as build metadata, so that tools that
/// compare versions find the release and people find the program.
pub const GIT_VERSION: &str = concat!("v1.36.3+steersman.", env!("CARGO_PKG_VERSION"));
pub const MAJOR: &str = "1";
pub const MINOR: &str = "36";

/// The commit it was built from, if the build said so.
pub const GIT_COMMIT: &str = match option_env!("STEERSMAN_COMMIT") {
    Some(commit) => commit,
    None => "unknown",
};
pub const BUILD_DATE: &str = match option_env!("STEERSMAN_BUILD_DATE") {
    Some(date) => date,
    None => "1970-01-01T00:00:00Z",
};

/// What takes the place of Go's version and compiler where Kubernetes reports them.
pub const COMPILER: &str = "rustc";

/// Go's names for the platform, as Kubernetes reports it.
pub fn platform() -> String {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "powerpc64" => "ppc64le",
        other => other,
    };
    format!("{}/{architecture}", std::env::consts::OS)
}

/// `--version`
pub fn line() -> String {
    format!("Kubernetes {GIT_VERSION}")
}

/// `--version=raw`
pub fn raw() -> String {
    format!(
        "version.Info{{Major:{MAJOR:?}, Minor:{MINOR:?}, GitVersion:{GIT_VERSION:?}, GitCommit:{GIT_COMMIT:?}, \
         GitTreeState:\"clean\", BuildDate:{BUILD_DATE:?}, Compiler:{COMPILER:?}, Platform:{:?}}}",
        platform()
    )
}

/// The user agent of a component of this process, in upstream's form, so that audit logs and API priority
/// rules that match on it keep working.
pub fn user_agent(component: &str) -> String {
    let commit = GIT_COMMIT.get(..7).unwrap_or(GIT_COMMIT);
    format!(
        "kube-controller-manager/{GIT_VERSION} ({}) kubernetes/{commit}/{component}",
        platform()
    )
}
