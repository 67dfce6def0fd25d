//! What would happen? The real controllers on a virtual clock, on a copy of a cluster or an empty one.
//!
//! [`preview`] loads the present state, waits until it is quiet, applies manifests and watches until all is complete or
//! time is up: a [`Preview`] is the timeline, the counts of pods over time, and what to be warned of.
//! [`decide()`] asks for one plan of each workload and writes nothing; `steersman why` uses it where no manager
//! of ours can be asked.

mod chart;
mod decide;
mod drain;
mod drained;
mod facts;
mod kinds;
mod load;
mod log;
mod manifest;
mod marks;
mod observe;
mod report;
mod retain;
mod rollout;
mod run;
mod schedules;
mod scope;
mod series;
mod state;
mod svg;
mod text;
mod ticks;
mod timeline;
mod usage;
mod warnings;
mod world;

use std::time::Duration;

use api::Time;

pub use decide::decide;
pub use drained::{Drain, Evicted};
pub use kinds::{Kind, kinds_of_state};
pub use load::Load;
pub use manifest::{Manifest, ManifestError};
pub use marks::Mark;
pub use observe::Observer;
pub use report::{Preview, Workload};
pub use rollout::Failure;
pub use schedules::{JobRun, Schedule};
pub use series::Sample;
pub use svg::svg;
pub use text::{Style, text};
pub use timeline::Entry;
pub use warnings::{Warning, WarningKind};

/// What to preview, and what to assume.
#[derive(Clone, Debug)]
pub struct Setup {
    /// What is to be applied.
    pub manifests: Vec<Manifest>,
    /// What is there: objects as a server gave them, or plain manifests, which are brought to life first.
    pub state: Vec<Manifest>,
    /// Where objects go that name no namespace.
    pub namespace: String,
    /// What time it is. All else being equal, the same setup gives the same preview.
    pub begin: Time,
    /// How long a pod takes to become ready once its containers run.
    pub ready_after: Duration,
    /// Images that cannot be pulled: `web:bad` stands for `registry/web:bad` too.
    pub fail_images: Vec<String>,
    /// How many nodes to simulate; those of the state if not given.
    pub nodes: Option<usize>,
    /// The nodes of a file, in their place, and what pods use on them.
    pub node_config: Option<nodes::Config>,
    /// How pods behave, and what they use.
    pub stages: nodes::stages::Stages,
    /// What is assumed by these files, in words.
    pub assumed: Vec<String>,
    /// How much virtual time to give it.
    pub length: Duration,
    /// What could not be read of the state, and so is missing in it.
    pub missing: Vec<String>,
    /// Where the state comes from, in words: `the cluster at https://...`.
    pub from: String,
    /// Nodes that are drained once the manifests are applied.
    pub drain: Vec<String>,
    /// What metrics autoscalers read, over time.
    pub loads: Vec<Load>,
}

/// New Year 2024: previews that start from nothing start then.
pub const BEGIN: i64 = 1_704_067_200;

#[derive(Debug, thiserror::Error)]
pub enum PreviewError {
    #[error(
        "{file}: line {line}: no kind {kind:?} is known in {api_version:?}; pass its CustomResourceDefinition along with -f if it is a custom one"
    )]
    UnknownKind {
        file: String,
        line: usize,
        kind: String,
        api_version: String,
    },
    #[error("{file}: line {line}: kind {kind:?} is not in {api_version:?}, but in {served:?}")]
    OtherVersion {
        file: String,
        line: usize,
        kind: String,
        api_version: String,
        /// Where it is.
        served: String,
    },
    #[error("{file}: line {line}: the API server rejects {object}: {message}")]
    Rejected {
        file: String,
        line: usize,
        object: String,
        message: String,
    },
    #[error("{0}")]
    Assumption(String),
    #[error("there is no node {name:?} to drain: there are {known}")]
    NoNode { name: String, known: String },
}

impl Setup {
    /// Nothing is known about the cluster.
    fn is_empty(&self) -> bool {
        self.state.is_empty()
    }

    /// Is it said what autoscalers read, so that those of the present state act? `config` has what files say.
    fn drives_autoscalers(&self, config: &nodes::Config) -> bool {
        let state = self.state.iter();
        let mut kinds = state.filter_map(|manifest| Kind::of(&manifest.object));
        !self.loads.is_empty() || config.declares_usage() && kinds.any(Kind::goes_by_metrics)
    }

    /// Whether the state says which namespaces there are.
    fn knows_namespaces(&self) -> bool {
        let mut kinds = self.state.iter().map(|manifest| manifest.text("/kind"));
        kinds.any(|kind| kind == "Namespace")
    }
}

/// Runs a preview. Call it outside of any runtime: it has its own time.
pub fn preview(setup: &Setup) -> Result<Preview, PreviewError> {
    virtual_time().block_on(async {
        let mut run = run::Run::new(setup, None).await?;
        run.play(setup).await?;
        Ok(report::report(&run, setup).await)
    })
}

/// The same, watched by somebody.
pub fn preview_observed(
    setup: &Setup,
    observer: &mut dyn Observer,
) -> Result<Preview, PreviewError> {
    virtual_time().block_on(async {
        let mut run = run::Run::new(setup, Some(observer.listener())).await?;
        run.let_watch(observer).await;
        run.play(setup).await?;
        observer.end();
        Ok(report::report(&run, setup).await)
    })
}

/// A runtime whose time jumps to the next timer when nobody has anything to do.
fn virtual_time() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without IO needs nothing from the system")
}
