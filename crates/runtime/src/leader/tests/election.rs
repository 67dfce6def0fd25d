use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use client::{Body, Transport};
use expect_test::expect;
use http::{Request, Response};
use http_body_util::BodyExt;
use serde_json::json;

use super::server::Fault;
use super::*;
use crate::events::Recorder;

#[tokio::test(start_paused = true)]
async fn the_first_candidate_creates_the_lease_and_renews_it_without_reading() {
    let server = LeaseServer::default();
    let a = Candidate::start(&server, "a");
    pass(5.0).await;
    assert!(a.may_write());
    expect![[r#"
        GET
        POST {"acquireTime":"2023-11-14T22:13:20.000000Z","holderIdentity":"a","leaseDurationSeconds":15,"leaseTransitions":0,"renewTime":"2023-11-14T22:13:20.000000Z"}
        PUT {"acquireTime":"2023-11-14T22:13:20.000000Z","holderIdentity":"a","leaseDurationSeconds":15,"leaseTransitions":0,"renewTime":"2023-11-14T22:13:22.000000Z"}
        PUT {"acquireTime":"2023-11-14T22:13:20.000000Z","holderIdentity":"a","leaseDurationSeconds":15,"leaseTransitions":0,"renewTime":"2023-11-14T22:13:24.000000Z"}"#]]
    .assert_eq(&server.take_requests().join("\n"));
    assert!(
        a.metrics
            .render()
            .contains("leader_election_master_status{name=\"kube-controller-manager\"} 1\n")
    );
    assert!(
        a.metrics
            .render()
            .contains("leader_election_slowpath_total{name=\"kube-controller-manager\"} 0\n")
    );
}

#[tokio::test(start_paused = true)]
async fn a_standby_knows_the_holder_and_takes_over_when_the_lease_has_not_moved_for_its_duration() {
    let server = LeaseServer::default();
    let a = Candidate::start(&server, "a");
    pass(1.0).await;
    let b = Candidate::start(&server, "b");
    pass(60.0).await;
    let holder = Some("a".to_owned());
    assert_eq!(*b.leadership.borrow(), Leadership::Standby { holder });
    assert!(
        b.metrics
            .render()
            .contains("leader_election_master_status{name=\"kube-controller-manager\"} 0\n")
    );

    // As if killed: it neither renews nor releases.
    let died_at = Instant::now();
    drop(a.task);
    while !b.leads() {
        pass(0.1).await;
    }
    let took = died_at.elapsed().as_secs_f64();
    // The last renewal was up to 2 s before the death; b asks every 2 to 4.4 s.
    assert!((13.0..15.0 + 2.0 * 4.4).contains(&took), "{took}");
    assert_eq!(server.lease()["spec"]["leaseTransitions"], 1);
    assert_eq!(
        server.lease()["spec"]["acquireTime"],
        server.lease()["spec"]["renewTime"]
    );
}

/// Each reading is an hour before or after the one before it.
fn jumping() -> api::Clock {
    let (clock, readings) = (clock(), AtomicU64::new(0));
    api::Clock::new(move || {
        let hours = readings.fetch_add(1, Ordering::Relaxed) % 2;
        clock.now().plus(Duration::from_secs(hours * 3600))
    })
}

#[tokio::test(start_paused = true)]
async fn a_holder_whose_clock_is_an_hour_off_or_jumps_keeps_the_lease() {
    let off = |start| crate::clock::following_tokio(Time::from_unix(start));
    let (slow, fast) = (off(1_700_000_000 - 3600), off(1_700_000_000 + 3600));
    for (holders, others) in [
        (slow, clock()),
        (fast, clock()),
        (jumping(), clock()),
        (clock(), jumping()),
    ] {
        let server = LeaseServer::default();
        let a = Candidate::with(&server, "a", holders, |_| {});
        pass(0.5).await;
        let b = Candidate::with(&server, "b", others, |_| {});
        for _ in 0..600 {
            pass(0.1).await;
            assert!(a.may_write() && !b.leads());
        }
        drop(a);
        pass(30.0).await;
        assert!(b.may_write());
    }
}

#[tokio::test(start_paused = true)]
async fn a_clean_exit_releases_the_lease_and_another_takes_it_at_its_next_try() {
    let server = LeaseServer::default();
    let a = Candidate::start(&server, "a");
    pass(1.0).await;
    let b = Candidate::start(&server, "b");
    pass(9.0).await;
    let leadership = a.leadership.clone();
    a.stop().await;
    assert!(matches!(*leadership.borrow(), Leadership::Standby { .. }));
    expect![[r#"{"acquireTime":"2023-11-14T22:13:30.000000Z","holderIdentity":"","leaseDurationSeconds":1,"leaseTransitions":0,"renewTime":"2023-11-14T22:13:30.000000Z"}"#]]
        .assert_eq(&server.spec());
    pass(4.5).await;
    assert!(b.may_write());
    assert_eq!(server.holder(), "b");
    assert_eq!(server.lease()["spec"]["leaseTransitions"], 1);
}

#[tokio::test(start_paused = true)]
async fn who_watches_the_lease_takes_it_the_moment_it_is_free() {
    let server = LeaseServer::default();
    let watching = |config: &mut LeaseConfig| config.watch = true;
    let a = Candidate::with(&server, "a", clock(), watching);
    pass(1.0).await;
    let b = Candidate::with(&server, "b", clock(), watching);
    pass(9.0).await;
    a.stop().await;
    pass(0.01).await;
    assert!(b.may_write(), "released");
    let c = Candidate::with(&server, "c", clock(), watching);
    pass(10.5).await;
    // A crash: the last renewal was at most a retry period ago, and c has seen it when it came.
    let renewed = server.lease()["spec"]["renewTime"].clone();
    drop(b);
    pass(12.9).await;
    assert!(!c.may_write(), "before the lease has expired");
    pass(2.1).await;
    assert!(c.may_write(), "last renewed {renewed}");
}

#[tokio::test(start_paused = true)]
async fn without_release_on_exit_the_lease_keeps_its_holder() {
    let server = LeaseServer::default();
    let a = Candidate::with(&server, "a", clock(), |config| {
        config.release_on_exit = false
    });
    pass(1.0).await;
    a.stop().await;
    assert_eq!(server.holder(), "a");
}

#[tokio::test(start_paused = true)]
async fn a_candidate_that_stops_does_not_release_anothers_lease() {
    let server = LeaseServer::default();
    let a = Candidate::start(&server, "a");
    pass(1.0).await;
    let b = Candidate::start(&server, "b");
    pass(10.0).await;
    b.stop().await;
    assert_eq!(server.holder(), "a");

    // Nor does a leader that has not noticed yet that it was deposed.
    server.put(json!({"holderIdentity": "thief", "leaseDurationSeconds": 15}));
    a.stop().await;
    assert_eq!(server.holder(), "thief");
}

#[tokio::test(start_paused = true)]
async fn a_write_whose_answer_was_lost_is_released_too() {
    let server = LeaseServer::default();
    let a = Candidate::start(&server, "a");
    // It finds no lease and creates one, but never hears of it.
    a.link.set(Fault::Slow(Duration::from_millis(100)));
    pass(0.15).await;
    a.link.set(Fault::AnswerLost);
    pass(1.0).await;
    assert_eq!(server.holder(), "a");
    assert!(!a.leads());
    a.link.set(Fault::None);
    a.stop().await;
    assert_eq!(server.holder(), "");
}

#[tokio::test(start_paused = true)]
async fn a_stolen_lease_is_noticed_at_the_next_renewal_and_contended_for_again() {
    let server = LeaseServer::default();
    let a = Candidate::start(&server, "a");
    pass(10.5).await;
    server
        .put(json!({"holderIdentity": "thief", "leaseDurationSeconds": 15, "leaseTransitions": 4}));
    pass(2.0).await;
    let holder = Some("thief".to_owned());
    assert_eq!(*a.leadership.borrow(), Leadership::Standby { holder });
    // The thief never renews.
    pass(25.0).await;
    assert!(a.may_write());
    assert_eq!(server.lease()["spec"]["leaseTransitions"], 5);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_lease_is_created_again() {
    let server = LeaseServer::default();
    let a = Candidate::start(&server, "a");
    pass(3.0).await;
    server.delete();
    pass(2.0).await;
    assert!(a.may_write());
    assert_eq!(server.holder(), "a");
}

#[tokio::test(start_paused = true)]
async fn a_conflict_is_mended_by_reading_and_counted_as_slow_path() {
    let server = LeaseServer::default();
    let a = Candidate::start(&server, "a");
    pass(3.0).await;
    server.edit(|lease| lease["metadata"]["labels"] = json!({"who": "an admin"}));
    server.take_requests();
    pass(2.0).await;
    assert!(a.may_write());
    let methods: Vec<String> = server
        .take_requests()
        .iter()
        .map(|line| line[..3].to_owned())
        .collect();
    assert_eq!(methods, ["PUT", "GET", "PUT"]);
    assert!(
        a.metrics
            .render()
            .contains("leader_election_slowpath_total{name=\"kube-controller-manager\"} 1\n")
    );
}

#[tokio::test(start_paused = true)]
async fn what_others_wrote_into_the_lease_stays() {
    let server = LeaseServer::default();
    server.put(json!({
        "holderIdentity": "", "leaseDurationSeconds": 1, "leaseTransitions": 7,
        "strategy": "OldestEmulationVersion", "preferredHolder": "c", "fieldOfNextYear": {"a": 1.50}
    }));
    server.edit(|lease| lease["metadata"]["annotations"] = json!({"note": "keep me"}));
    let a = Candidate::start(&server, "a");
    pass(1.0).await;
    assert!(a.may_write());
    let lease = server.lease();
    assert_eq!(lease["metadata"]["annotations"]["note"], "keep me");
    expect![[r#"{"acquireTime":"2023-11-14T22:13:20.000000Z","fieldOfNextYear":{"a":1.5},"holderIdentity":"a","leaseDurationSeconds":15,"leaseTransitions":8,"renewTime":"2023-11-14T22:13:20.000000Z"}"#]]
        .assert_eq(&server.spec());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_gone_ends_the_leadership_and_its_return_restores_it() {
    for fault in [Fault::Refused, Fault::Silent] {
        let server = LeaseServer::default();
        let a = Candidate::start(&server, "a");
        // Just after the renewal at 10 s.
        pass(10.01).await;
        a.link.set(fault);
        pass(9.9).await;
        assert!(a.may_write(), "{fault:?}");
        pass(0.1).await;
        assert!(
            !a.may_write(),
            "writes end with the renew deadline: {fault:?}"
        );
        pass(2.1).await;
        assert!(!a.leads(), "{fault:?}");
        assert!(a.health.check(Duration::from_secs(20)).is_ok());
        a.link.set(Fault::None);
        pass(8.0).await;
        assert!(a.may_write(), "{fault:?}");
        // It was ours all the time.
        assert_eq!(server.lease()["spec"]["leaseTransitions"], 0);
    }
}

/// As long as it runs it steps down in time; the check is for an elector that hangs. Upstream: TestLeaderElectionHealthChecker.
#[tokio::test(start_paused = true)]
async fn who_leads_and_has_long_stopped_to_renew_is_unhealthy() {
    let server = LeaseServer::default();
    let a = Candidate::start(&server, "a");
    let b = Candidate::start(&server, "b");
    pass(10.0).await;
    assert!(a.leads() && !b.leads());
    let grace = Duration::from_secs(20);
    // It hangs right after a renewal: nobody moves its state any more.
    drop(a.task);
    let Leadership::Leading { until, .. } = *a.leadership.borrow() else {
        panic!("it leads")
    };
    let renewed_at = until - Duration::from_secs(10);
    // The lease lasts 15 s, and another 20 s are forgiven.
    tokio::time::sleep_until(renewed_at + Duration::from_secs(35)).await;
    assert_eq!(a.health.check(grace), Ok(()));
    pass(0.01).await;
    assert_eq!(
        a.health.check(grace),
        Err("failed election to renew leadership on lease kube-controller-manager".into())
    );
    assert_eq!(b.health.check(grace), Ok(()), "the other one is fine");
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_no_lease_is_survived() {
    let server = LeaseServer::default();
    server.put(json!({"holderIdentity": 7}));
    let a = Candidate::start(&server, "a");
    pass(60.0).await;
    assert!(!a.leads());
    server.delete();
    pass(5.0).await;
    assert!(a.may_write());
}

#[tokio::test(start_paused = true)]
async fn events_tell_who_leads() {
    let server = LeaseServer::default();
    let log = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&log);
    let events = Transport::new(tower::service_fn(move |request: Request<Bytes>| {
        let body: serde_json::Value = serde_json::from_slice(request.body()).unwrap();
        let object = &body["involvedObject"];
        sink.lock().push(format!(
            "{} {}/{}: {} {}",
            object["kind"], object["namespace"], object["name"], body["reason"], body["message"]
        ));
        async {
            Ok(Response::new(Body::new(
                http_body_util::Empty::new().map_err(|never| match never {}),
            )))
        }
    }));
    let (recorder, writer) = Recorder::new(
        "kube-controller-manager",
        "",
        Client::new(events),
        clock(),
        Rng::from_seed(1),
    );
    let (_keep, events_stop) = Stop::new();
    let _writer = crate::spawn(writer.run(events_stop));
    let config = LeaseConfig::new("kube-system", "kube-controller-manager", "a");
    let client = Client::new(server.link().transport());
    let elector =
        LeaderElector::new(client, config, clock(), Rng::from_seed(1), Some(recorder)).unwrap();
    let (stopper, stop) = Stop::new();
    let task = crate::spawn(elector.run(stop));
    pass(3.0).await;
    stopper.stop();
    task.await.unwrap();
    pass(1.0).await;
    expect![[r#"
        "Lease" "kube-system"/"kube-controller-manager": "LeaderElection" "a became leader"
        "Lease" "kube-system"/"kube-controller-manager": "LeaderElection" "a stopped leading""#]]
    .assert_eq(&log.lock().join("\n"));
}

#[test]
fn a_configuration_that_cannot_be_safe_is_refused() {
    let check = |change: fn(&mut LeaseConfig), expected: LeaseConfigError| {
        let mut config = LeaseConfig::new("kube-system", "lease", "a");
        change(&mut config);
        assert_eq!(config.validate(), Err(expected));
    };
    check(
        |c| c.lease_duration = c.renew_deadline,
        LeaseConfigError::LeaseDurationTooShort,
    );
    check(
        |c| c.renew_deadline = Duration::from_millis(2400),
        LeaseConfigError::RenewDeadlineTooShort,
    );
    check(
        |c| c.retry_period = Duration::ZERO,
        LeaseConfigError::RetryPeriodZero,
    );
    check(|c| c.identity.clear(), LeaseConfigError::IdentityEmpty);
    check(
        |c| {
            c.lease_duration = Duration::from_millis(900);
            c.renew_deadline = Duration::from_millis(800);
            c.retry_period = Duration::from_millis(100);
        },
        LeaseConfigError::LeaseDurationZero,
    );
    assert_eq!(
        LeaseConfig::new("kube-system", "lease", "a").validate(),
        Ok(())
    );
}

/// The one promise: whatever the network does, two candidates never may write at the same time.
/// And it is worth something only if somebody leads most of the time.
#[tokio::test(start_paused = true)]
async fn never_two_leaders_whatever_the_links_do() {
    for seed in 0..20 {
        let rng = Rng::from_seed(seed);
        let server = LeaseServer::default();
        let candidates: Vec<Candidate> = ["a", "b", "c"]
            .iter()
            .map(|identity| {
                let off = i64::try_from(rng.below(7200)).unwrap() - 3600;
                let clock = crate::clock::following_tokio(Time::from_unix(1_700_000_000 + off));
                Candidate::with(&server, identity, clock, |_| {})
            })
            .collect();
        let mut led = 0;
        for step in 0..6000 {
            if step % 50 == 0 {
                let link = &candidates[rng.below(3)].link;
                link.set(match rng.below(8) {
                    0 => Fault::Refused,
                    1 => Fault::Silent,
                    2 => Fault::AnswerLost,
                    3 => Fault::Slow(Duration::from_millis(rng.below(4000) as u64)),
                    _ => Fault::None,
                });
            }
            pass(0.1).await;
            let writers = candidates.iter().filter(|one| one.may_write()).count();
            assert!(writers <= 1, "seed {seed}, step {step}: {writers} leaders");
            led += writers;
        }
        assert!(led > 3000, "seed {seed}: led for {led} of 6000 steps");
    }
}
