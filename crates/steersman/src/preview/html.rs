//! `--output html`: the dashboard with a preview in it, as one file to send to a colleague.

use std::sync::Arc;

use anyhow::Result;
use api::{Clock, Rng};
use client::Client;
use dashboard::{Dashboard, Feed, Notes, Recording};
use preview::{Observer, Preview, Setup};
use runtime::Decisions;
use serde_json::Value;

use crate::up::dashboard::InTheBox;

/// Runs a preview, records it, and prints the page.
pub(crate) fn print(setup: &Setup) -> Result<Preview> {
    let mut recorder = Recorder {
        feed: Feed::recording(),
        dashboard: None,
        clock: None,
        begin: 0,
        recorded: (Value::Null, Vec::new()),
    };
    let preview = preview::preview_observed(setup, &mut recorder)?;
    let warnings = preview
        .warnings
        .iter()
        .map(|one| match one.object.as_str() {
            "" => one.text.clone(),
            object => format!("{object}: {}", one.text),
        });
    let (base, frames) = recorder.recorded;
    let recording = Recording {
        title: "Preview".to_owned(),
        begin: recorder.begin,
        count_from: recorder.begin,
        base,
        frames,
        notes: Notes {
            verdict: format!("{}.", preview.verdict()),
            failed: false,
            warnings: warnings.collect(),
        },
    };
    print!("{}", dashboard::one_file(&recording));
    Ok(preview)
}

/// A dashboard that nobody looks at until it is over.
struct Recorder {
    feed: Arc<Feed>,
    dashboard: Option<Arc<Dashboard>>,
    clock: Option<Clock>,
    begin: i64,
    recorded: (Value, Vec<Value>),
}

impl Observer for Recorder {
    fn listener(&self) -> runtime::decisions::Listener {
        self.feed.listener()
    }

    fn begin(&mut self, client: Client, clock: Clock, decisions: Decisions) {
        self.clock = Some(clock.clone());
        let source =
            InTheBox::without_hands(client.clone(), "a simulated cluster", &clock, &decisions);
        let dashboard = Dashboard::new(dashboard::Setup {
            feed: self.feed.clone(),
            client,
            decisions,
            clock,
            rng: Rng::from_seed(1),
            source: Arc::new(source),
            cluster: "preview".to_owned(),
            acts: false,
            has_owner: true,
        });
        dashboard.record();
        self.dashboard = Some(dashboard);
    }

    fn applying(&mut self) {
        let now = self.clock.as_ref().map(Clock::now);
        self.begin = now.map_or(0, |now| now.unix_micros() / 1000);
    }

    fn end(&mut self) {
        if let Some(dashboard) = self.dashboard.take() {
            self.recorded = dashboard.recorded();
        }
    }
}
