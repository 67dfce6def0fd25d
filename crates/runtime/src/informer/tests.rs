//! The reflector against a scripted server: each request gets the next answer of the script.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use api::kinds::Pod;
use api::{Resource, Rng};
use bytes::Bytes;
use client::{Body, BoxError, Client, Transport};
use futures_util::StreamExt;
use http::{Request, Response};
use http_body_util::{BodyExt, Full, StreamBody};
use tower::util::BoxCloneSyncService;

use super::{Change, Informer, StreamOptions};
use crate::{Stop, spawn};

/// What the server does with one request.
enum Answer {
    /// A status code and a body.
    Plain(u16, String),
    /// A watch: these frames, and then the end of the stream.
    Frames(Vec<String>),
    /// A watch that stays open after its frames.
    Open(Vec<String>),
}

struct Script {
    answers: Mutex<VecDeque<Answer>>,
    requests: Mutex<Vec<String>>,
}

fn transport(script: &Arc<Script>) -> Transport {
    let script = script.clone();
    BoxCloneSyncService::new(tower::service_fn(move |request: Request<Bytes>| {
        let script = script.clone();
        async move {
            let path = request.uri().path_and_query().map(ToString::to_string);
            script.requests.lock().push(path.unwrap_or_default());
            let answer = script.answers.lock().pop_front();
            let (code, body) = match answer {
                Some(Answer::Plain(code, text)) => (code, whole(text)),
                Some(Answer::Frames(frames)) => (200, stream(frames, false)),
                Some(Answer::Open(frames)) => (200, stream(frames, true)),
                None => (200, stream(Vec::new(), true)),
            };
            Ok::<_, BoxError>(Response::builder().status(code).body(body)?)
        }
    }))
}

fn whole(text: String) -> Body {
    Full::new(Bytes::from(text))
        .map_err(|never| match never {})
        .boxed_unsync()
}

fn stream(frames: Vec<String>, stay_open: bool) -> Body {
    let frames = frames
        .into_iter()
        .map(|text| Ok(http_body::Frame::data(Bytes::from(text + "\n"))));
    let frames = futures_util::stream::iter(frames);
    if stay_open {
        StreamBody::new(frames.chain(futures_util::stream::pending())).boxed_unsync()
    } else {
        StreamBody::new(frames).boxed_unsync()
    }
}

fn pod(name: &str, version: u64, phase: &str) -> String {
    format!(
        r#"{{"metadata":{{"name":"{name}","namespace":"ns","uid":"{name}","resourceVersion":"{version}"}},"status":{{"phase":"{phase}"}}}}"#
    )
}

fn event(kind: &str, object: &str) -> String {
    format!(r#"{{"type":"{kind}","object":{object}}}"#)
}

fn added(name: &str, version: u64) -> String {
    event("ADDED", &pod(name, version, "Pending"))
}

fn bookmark(version: u64, end: bool) -> String {
    let annotations = if end {
        r#","annotations":{"k8s.io/initial-events-end":"true"}"#
    } else {
        ""
    };
    event(
        "BOOKMARK",
        &format!(r#"{{"metadata":{{"resourceVersion":"{version}"{annotations}}}}}"#),
    )
}

fn status(code: u16, reason: &str) -> String {
    format!(
        r#"{{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no","reason":"{reason}","code":{code}}}"#
    )
}

struct Seen {
    log: Vec<String>,
    store: Vec<String>,
    requests: Vec<String>,
    synced: bool,
}

/// Runs the script for two virtual minutes.
async fn run(answers: Vec<Answer>) -> Seen {
    run_with(answers, None).await
}

async fn run_with(answers: Vec<Answer>, resync: Option<Duration>) -> Seen {
    let script = Arc::new(Script {
        answers: Mutex::new(answers.into()),
        requests: Mutex::default(),
    });
    let informer = Arc::new(Informer::<Pod>::new());
    let log = Arc::new(Mutex::new(Vec::new()));
    let sink = log.clone();
    informer.on_change(move |change| {
        let line = match change {
            Change::Added(pod) => format!("+{}", pod.metadata.name),
            Change::Updated { new, .. } => format!("~{}", new.metadata.name),
            Change::Deleted(pod) => format!("-{}", pod.metadata.name),
        };
        sink.lock().push(line);
    });
    let (_stopper, stop) = Stop::new();
    let running = {
        let informer = informer.clone();
        let client = Client::new(transport(&script));
        let options = StreamOptions {
            rng: Rng::from_seed(1),
            resync,
        };
        spawn(async move { informer.run(client, options, stop).await })
    };
    tokio::time::sleep(Duration::from_secs(120)).await;
    drop(running);
    let mut store: Vec<String> = informer
        .store()
        .list()
        .iter()
        .map(|pod| format!("{}@{}", pod.metadata.name, pod.meta().resource_version))
        .collect();
    store.sort();
    let requests = script
        .requests
        .lock()
        .iter()
        .map(|path| brief(path))
        .collect();
    let log = log.lock().clone();
    Seen {
        log,
        store,
        requests,
        synced: informer.is_synced(),
    }
}

/// `watch-list`, `watch@5`, `list`, `list+token`: what a request asked for.
fn brief(path: &str) -> String {
    let value = |name: &str| {
        path.split(['?', '&'])
            .find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
            .map(ToString::to_string)
    };
    if value("sendInitialEvents").is_some() {
        "watch-list".into()
    } else if value("watch").is_some() {
        format!("watch@{}", value("resourceVersion").unwrap_or_default())
    } else if let Some(token) = value("continue") {
        format!("list+{token}")
    } else {
        "list".into()
    }
}

#[tokio::test(start_paused = true)]
async fn watch_list_then_changes() {
    let seen = run(vec![Answer::Open(vec![
        added("a", 3),
        added("b", 4),
        bookmark(7, true),
        event("MODIFIED", &pod("a", 8, "Running")),
        event("DELETED", &pod("b", 9, "Pending")),
    ])])
    .await;
    assert!(seen.synced);
    assert_eq!(seen.log, ["+a", "+b", "~a", "-b"]);
    assert_eq!(seen.store, ["a@8"]);
    assert_eq!(seen.requests, ["watch-list"]);
}

#[tokio::test(start_paused = true)]
async fn an_undecodable_update_enqueues_nothing() {
    let seen = run(vec![Answer::Open(vec![
        added("a", 3),
        bookmark(7, true),
        event("MODIFIED", &pod("a", 8, "Pending")),
    ])])
    .await;
    assert_eq!(seen.log, ["+a"]);
    assert_eq!(seen.store, ["a@8"], "the store moves on all the same");
}

#[tokio::test(start_paused = true)]
async fn resumes_where_a_stream_was_cut() {
    let seen = run(vec![
        Answer::Frames(vec![added("a", 3), bookmark(7, true), added("b", 8)]),
        Answer::Frames(vec![bookmark(20, false)]),
        Answer::Open(vec![event("DELETED", &pod("a", 21, "Pending"))]),
    ])
    .await;
    assert_eq!(seen.requests, ["watch-list", "watch@8", "watch@20"]);
    assert_eq!(seen.log, ["+a", "+b", "-a"]);
}

#[tokio::test(start_paused = true)]
async fn a_cut_after_any_event_loses_nothing() {
    let listing = || vec![added("a", 3), added("b", 4), bookmark(7, true)];
    let changes = || {
        vec![
            event("MODIFIED", &pod("a", 8, "Running")),
            added("c", 9),
            event("DELETED", &pod("b", 10, "Pending")),
            event("MODIFIED", &pod("c", 11, "Running")),
        ]
    };
    let all: Vec<String> = listing().into_iter().chain(changes()).collect();
    for cut in 0..=all.len() {
        let (before, after) = all.split_at(cut);
        let rest = match cut < listing().len() {
            // Half a listing is none.
            true => all.clone(),
            false => after.to_vec(),
        };
        let seen = run(vec![Answer::Frames(before.to_vec()), Answer::Open(rest)]).await;
        assert_eq!(
            seen.log,
            ["+a", "+b", "~a", "+c", "-b", "~c"],
            "cut at {cut}"
        );
        assert_eq!(seen.store, ["a@8", "c@11"], "cut at {cut}");
        assert_eq!(seen.requests.len(), 2, "cut at {cut}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cut_in_the_middle_of_an_event_loses_nothing() {
    let half = added("b", 8)[..20].to_string();
    let seen = run(vec![
        Answer::Frames(vec![added("a", 3), bookmark(7, true), half]),
        Answer::Open(vec![added("b", 8)]),
    ])
    .await;
    assert_eq!(seen.requests, ["watch-list", "watch@7"]);
    assert_eq!(seen.log, ["+a", "+b"]);
}

#[tokio::test(start_paused = true)]
async fn half_a_listing_deletes_nothing() {
    let seen = run(vec![
        Answer::Frames(vec![added("a", 3), added("b", 4), bookmark(7, true)]),
        Answer::Frames(vec![event("ERROR", &status(410, "Expired"))]),
        Answer::Frames(vec![added("a", 3)]),
        Answer::Open(vec![added("a", 3), bookmark(30, true)]),
    ])
    .await;
    assert_eq!(
        seen.requests,
        ["watch-list", "watch@7", "watch-list", "watch-list"]
    );
    assert_eq!(
        seen.log,
        ["+a", "+b", "-b", "~a"],
        "deleted once the whole listing lacks it"
    );
}

#[tokio::test(start_paused = true)]
async fn a_gone_status_code_relists() {
    let seen = run(vec![
        Answer::Frames(vec![added("a", 3), bookmark(7, true)]),
        Answer::Plain(410, status(410, "Expired")),
        Answer::Open(vec![added("b", 40), bookmark(41, true)]),
    ])
    .await;
    assert_eq!(seen.requests, ["watch-list", "watch@7", "watch-list"]);
    assert_eq!(seen.log, ["+a", "+b", "-a", "~b"]);
}

/// The server may have been restored without a write that the cache never saw (simulator, seed 2350): whoever made it
/// has to look again, although nothing has changed.
#[tokio::test(start_paused = true)]
async fn objects_that_a_restored_server_still_has_are_relisted() {
    let seen = run(vec![
        Answer::Frames(vec![added("a", 3), added("b", 4), bookmark(7, true)]),
        Answer::Plain(410, status(410, "Expired")),
        Answer::Open(vec![added("a", 3), added("b", 4), bookmark(41, true)]),
    ])
    .await;
    assert_eq!(seen.log, ["+a", "+b", "~a", "~b"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_without_watch_list_gets_pages() {
    let list = |names: &str, token: &str| {
        Answer::Plain(
            200,
            format!(
                r#"{{"metadata":{{"resourceVersion":"50","continue":"{token}"}},"items":[{names}]}}"#
            ),
        )
    };
    let seen = run(vec![
        Answer::Plain(422, status(422, "Invalid")),
        list(&pod("a", 3, "Pending"), "more"),
        list(&pod("b", 4, "Pending"), ""),
        Answer::Open(vec![added("c", 51)]),
    ])
    .await;
    assert_eq!(
        seen.requests,
        ["watch-list", "list", "list+more", "watch@50"]
    );
    assert_eq!(seen.log, ["+a", "+b", "+c"]);
    assert!(seen.synced);
}

#[tokio::test(start_paused = true)]
async fn a_page_that_expires_starts_the_listing_again() {
    let seen = run(vec![
        Answer::Plain(422, status(422, "Invalid")),
        Answer::Plain(
            200,
            format!(
                r#"{{"metadata":{{"resourceVersion":"50","continue":"t"}},"items":[{}]}}"#,
                pod("a", 3, "Pending")
            ),
        ),
        Answer::Plain(410, status(410, "Expired")),
        Answer::Plain(
            200,
            r#"{"metadata":{"resourceVersion":"60"},"items":[]}"#.into(),
        ),
    ])
    .await;
    assert_eq!(seen.requests[..4], ["watch-list", "list", "list+t", "list"]);
    assert_eq!(seen.log, ["+a", "-a"]);
}

#[tokio::test(start_paused = true)]
async fn trouble_is_waited_out() {
    let seen = run(vec![
        Answer::Plain(503, status(503, "ServiceUnavailable")),
        Answer::Plain(429, status(429, "TooManyRequests")),
        Answer::Plain(200, "garbage\n".into()),
        Answer::Frames(Vec::new()),
        Answer::Open(vec![added("a", 3), bookmark(7, true)]),
    ])
    .await;
    assert_eq!(seen.requests, ["watch-list"; 5]);
    assert_eq!(seen.log, ["+a"]);
}

/// A server that was restored, or another one behind the same address, does not know our revision yet.
#[tokio::test(start_paused = true)]
async fn a_revision_from_the_future_is_given_up() {
    let too_large = status(504, "Timeout").replace(
        r#""code""#,
        r#""details":{"causes":[{"reason":"ResourceVersionTooLarge","message":"Too large resource version"}]},"code""#,
    );
    let seen = run(vec![
        Answer::Frames(vec![added("a", 90), bookmark(90, true)]),
        Answer::Plain(504, too_large),
        Answer::Open(vec![added("b", 5), bookmark(7, true)]),
    ])
    .await;
    assert_eq!(seen.requests, ["watch-list", "watch@90", "watch-list"]);
    assert_eq!(seen.log, ["+a", "+b", "-a", "~b"]);
    assert_eq!(seen.store, ["b@5"]);
}

#[tokio::test(start_paused = true)]
async fn watches_end_after_five_to_ten_minutes_and_not_all_at_once() {
    let script = Arc::new(Script {
        answers: Mutex::default(),
        requests: Mutex::default(),
    });
    let (_stopper, stop) = Stop::new();
    let options = StreamOptions {
        rng: Rng::from_seed(1),
        resync: None,
    };
    let informer = Informer::<Pod>::new();
    let running = informer.run(Client::new(transport(&script)), options, stop);
    let _ = tokio::time::timeout(Duration::from_secs(7200), running).await;
    let requests = script.requests.lock();
    let asked: std::collections::BTreeSet<u64> = requests
        .iter()
        .filter_map(|path| {
            path.split(['?', '&'])
                .find_map(|pair| pair.strip_prefix("timeoutSeconds="))
        })
        .map(|seconds| seconds.parse().unwrap())
        .collect();
    assert!(asked.len() > 3, "{asked:?}");
    assert!(
        asked.iter().all(|seconds| (300..600).contains(seconds)),
        "{asked:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn all_who_read_a_kind_share_one_stream() {
    let listing = Answer::Open(vec![added("a", 3), bookmark(7, true)]);
    let script = Arc::new(Script {
        answers: Mutex::new([listing].into()),
        requests: Mutex::default(),
    });
    let options = StreamOptions {
        rng: Rng::from_seed(1),
        resync: None,
    };
    let informers = super::Informers::new(Client::new(transport(&script)), options);
    let (one, two) = (informers.of::<Pod>(), informers.of::<Pod>());
    let (_stopper, stop) = Stop::new();
    informers.start(&stop);
    informers.synced().await;
    let late = informers.of::<Pod>();
    for informer in [one, two, late] {
        assert!(informer.is_synced() && informer.store().find("ns", "a").is_some());
        assert_eq!(informer.store().resource_version(), 7);
    }
    assert_eq!(script.requests.lock().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn duplicates_and_bad_objects_do_no_harm() {
    let seen = run(vec![Answer::Open(vec![
        added("a", 3),
        added("a", 3),
        event("ADDED", r#"{"metadata":{"name":"bad","labels":7}}"#),
        bookmark(7, true),
        event("DELETED", &pod("a", 8, "Pending")),
        event("DELETED", &pod("a", 8, "Pending")),
    ])])
    .await;
    assert_eq!(seen.log, ["+a", "-a"]);
    assert_eq!(seen.requests, ["watch-list"]);
}

#[tokio::test(start_paused = true)]
async fn a_recreated_object_is_a_deletion_and_an_addition() {
    let anew = pod("a", 9, "Pending").replace(r#""uid":"a""#, r#""uid":"other""#);
    let seen = run(vec![Answer::Open(vec![
        added("a", 3),
        bookmark(7, true),
        event("MODIFIED", &anew),
    ])])
    .await;
    assert_eq!(seen.log, ["+a", "-a", "+a"]);
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_served_is_asked_for_now_and_then() {
    let missing = || Answer::Plain(404, status(404, "NotFound"));
    let listing = Answer::Open(vec![added("a", 5), bookmark(5, true)]);
    let seen = run(vec![missing(), missing(), listing]).await;
    assert_eq!(seen.requests, ["watch-list"; 3], "in two minutes");
    assert!(seen.synced, "it has come");
    assert_eq!(seen.log, ["+a"]);
}

// --min-resync-period.
#[tokio::test(start_paused = true)]
async fn a_resync_tells_of_everything_again_and_asks_for_nothing() {
    let listing = Answer::Open(vec![added("a", 5), added("b", 6), bookmark(6, true)]);
    let seen = run_with(vec![listing], Some(Duration::from_secs(50))).await;
    assert_eq!(seen.log, ["+a", "+b", "~a", "~b", "~a", "~b"]);
    assert_eq!(seen.requests, ["watch-list"]);
}

/// What a store that had this listing does when it has to be fresh after a minute: its requests, and whether
/// those who wait for it may begin.
async fn demanded(answers: Vec<Answer>) -> (Vec<String>, bool) {
    let script = Arc::new(Script {
        answers: Mutex::new(answers.into()),
        requests: Mutex::default(),
    });
    let informer = Arc::new(Informer::<Pod>::new());
    let (_stopper, stop) = Stop::new();
    let _running = {
        let (informer, client) = (informer.clone(), Client::new(transport(&script)));
        let options = StreamOptions {
            rng: Rng::from_seed(1),
            resync: None,
        };
        spawn(async move { informer.run(client, options, stop).await })
    };
    tokio::time::sleep(Duration::from_secs(60)).await;
    informer.synced().wait().await;
    informer.demand_fresh(tokio::time::Instant::now());
    let synced = informer.synced();
    let waiting = tokio::time::timeout(Duration::from_secs(1), synced.wait());
    let is_fresh = waiting.await.is_ok();
    let requests = script.requests.lock();
    (requests.iter().map(|path| brief(path)).collect(), is_fresh)
}

fn many(count: u64) -> Vec<String> {
    let pods = (1..=count).map(|number| added(&format!("p{number}"), number));
    pods.chain([bookmark(1000, true)]).collect()
}

fn at(revision: u64) -> Answer {
    let list = format!(r#"{{"metadata":{{"resourceVersion":"{revision}"}},"items":[]}}"#);
    Answer::Plain(200, list)
}

#[tokio::test(start_paused = true)]
async fn a_small_store_that_must_be_fresh_lists_again() {
    let listing = || Answer::Open(many(3));
    let (requests, is_fresh) = demanded(vec![listing(), listing()]).await;
    assert_eq!(requests, ["watch-list", "watch-list"]);
    assert!(is_fresh);
    let frozen = Answer::Open(vec![added("p1", 1)]);
    let (requests, is_fresh) = demanded(vec![listing(), frozen]).await;
    assert_eq!(requests, ["watch-list", "watch-list"]);
    assert!(!is_fresh, "half a listing proves nothing");
}

#[tokio::test(start_paused = true)]
async fn a_large_store_shows_by_its_stream_that_it_is_fresh_or_lists_again() {
    let listing = || Answer::Open(many(600));
    let (requests, is_fresh) = demanded(vec![listing(), at(1000)]).await;
    assert_eq!(requests, ["watch-list", "list"], "the server is there too");
    assert!(is_fresh);
    let (requests, is_fresh) = demanded(vec![listing(), at(1001), listing()]).await;
    assert_eq!(requests, ["watch-list", "list", "watch-list"]);
    assert!(is_fresh);
}
