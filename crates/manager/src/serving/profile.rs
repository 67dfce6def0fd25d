//! `/debug/pprof/`: profiles of this process in the format that `go tool pprof` and its kin read.
//!
//! The sampler is in binaries that were built with the feature `pprof`; others say so.

#[cfg(feature = "pprof")]
mod cpu;

use http::StatusCode;

use super::router::{Router, text};

const PREFIX: &str = "/debug/pprof/";

/// Adds the pages to a router.
pub fn register_profiles(router: &Router) {
    router.handle(PREFIX, |request| match request.path.strip_prefix(PREFIX) {
        Some("") => text(StatusCode::OK, INDEX),
        Some("cmdline") => {
            let arguments: Vec<_> = std::env::args_os()
                .map(|part| part.to_string_lossy().into_owned())
                .collect();
            text(StatusCode::OK, arguments.join("\0"))
        }
        Some("symbol") => text(StatusCode::OK, "num_symbols: 1\n"),
        Some("profile") => text(StatusCode::NOT_IMPLEMENTED, NOT_BUILT_IN),
        _ => text(StatusCode::NOT_IMPLEMENTED, NOT_THERE),
    });
    #[cfg(feature = "pprof")]
    cpu::register(router);
}

const INDEX: &str = "/debug/pprof/\n\nprofile?seconds=N\tCPU profile; read it with: go tool pprof\ncmdline\t\t\tthe command line\n";

const NOT_BUILT_IN: &str = "This binary was built without CPU profiles. Build it with the feature pprof to have them: \
    cargo build --release --features pprof\n";

const NOT_THERE: &str = "This profile does not exist here: the process has no garbage collector or goroutines, and its allocator \
    keeps no record of its callers. /debug/pprof/profile is a CPU profile; /metrics has the memory in use.\n";

#[cfg(test)]
mod tests {
    use super::super::router::Request;
    use super::*;

    async fn answer(target: &str) -> (u16, String) {
        let router = Router::default();
        register_profiles(&router);
        let reply = router.answer(Request::get(target)).await;
        (
            reply.status().as_u16(),
            String::from_utf8_lossy(reply.body()).into_owned(),
        )
    }

    #[tokio::test]
    async fn what_there_is_not_is_said() {
        for path in ["heap", "goroutine", "allocs", "nope"] {
            let (code, body) = answer(&format!("/debug/pprof/{path}")).await;
            assert_eq!(code, 501, "{path}");
            assert!(
                body.starts_with("This profile does not exist here"),
                "{body}"
            );
        }
        assert_eq!(answer("/debug/pprof/").await.0, 200);
    }

    #[cfg(not(feature = "pprof"))]
    #[tokio::test]
    async fn a_binary_without_profiles_names_the_feature() {
        let (code, body) = answer("/debug/pprof/profile?seconds=1").await;
        assert_eq!(code, 501);
        assert!(body.contains("--features pprof"), "{body}");
    }
}
