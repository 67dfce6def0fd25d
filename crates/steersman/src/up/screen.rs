//! What `up` says on the terminal while it starts and when it is up.

use std::io::{IsTerminal, Write};

use tokio::time::Instant;

use super::instance::Facts;
use super::{Arguments, Output};

/// Where things are said. Whoever reads them may go away: that is no reason to stop.
pub(crate) struct Screen {
    shows_text: bool,
    is_terminal: bool,
    begun: Instant,
}

/// Wide enough for an address and for "1000 of 1000 ready".
const WIDTH: usize = 34;

impl Screen {
    pub(crate) fn new(arguments: &Arguments) -> Screen {
        let shows_text =
            !arguments.quiet && !arguments.detached && arguments.output == Output::Text;
        Screen {
            shows_text,
            is_terminal: std::io::stdout().is_terminal(),
            begun: Instant::now(),
        }
    }

    pub(crate) fn open(&self) {
        let version = env!("CARGO_PKG_VERSION");
        self.say(&format!(
            "Steersman {version}: a Kubernetes 1.36 cluster in a box\n"
        ));
    }

    pub(crate) fn say(&self, text: &str) {
        if self.shows_text {
            let _ = writeln!(std::io::stdout(), "{text}");
        }
    }

    /// A part of the cluster is there.
    pub(crate) fn step(&self, part: &str, what: &str) {
        let seconds = self.begun.elapsed().as_secs_f64();
        let back = if self.is_terminal { "\r" } else { "" };
        self.say(&format!("{back}  {part:<13} {what:<WIDTH$} {seconds:.2} s"));
    }

    /// A part of the cluster is on its way; seen on terminals alone.
    pub(crate) fn progress(&self, part: &str, what: &str) {
        if self.shows_text && self.is_terminal {
            let mut out = std::io::stdout();
            let _ = write!(out, "\r  {part:<13} {what:<WIDTH$}");
            let _ = out.flush();
        }
    }

    /// The cluster is up.
    pub(crate) fn greet(&self, facts: &Facts) {
        self.say(&greeting(facts, "Ctrl-C stops it"));
    }
}

/// What to do with a cluster that is up.
pub(crate) fn greeting(facts: &Facts, how_to_stop: &str) -> String {
    let after = match &facts.data_dir {
        Some(dir) => format!("what is in it stays in {}", dir.display()),
        None => "what is in it is forgotten".to_owned(),
    };
    let pending = match facts.nodes {
        0 => "\nThere are no nodes: pods stay Pending, and `kubectl describe pod` says why.",
        _ => "",
    };
    let merged = facts.merged_into.as_ref().map_or(String::new(), |path| {
        let path = path.display();
        format!("\n  kubectl config use-context steersman    (it is in {path} now)")
    });
    let dashboard = facts.dashboard.as_ref().and_then(|place| place.link().ok());
    let dashboard = dashboard.map_or(String::new(), |link| {
        format!("\nSee what the controllers do, and why (the link opens once; `steersman dashboard` prints another):\n  {link}\n")
    });
    format!(
        "
  export KUBECONFIG={}{merged}

Try:
  kubectl create deployment web --image=nginx --replicas=3
  kubectl rollout status deployment/web
  kubectl describe pods
{dashboard}{pending}
Nodes, scheduler and containers are simulated: nothing is pulled and nothing runs.
{how_to_stop}; {after}.",
        facts.kubeconfig.display(),
    )
}
