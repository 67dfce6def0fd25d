//! What holds for every plan, whatever the state that it starts from.

use std::sync::Arc;

use api::Time;
use api::kinds::{Deployment, ReplicaSet};
use proptest::prelude::*;

use super::super::{Snapshot, converged, keeps_enough, max_unavailable, most_replicas, plan, safe};
use super::{now, snapshot, steps};

/// A Deployment and up to four sets, one of them perhaps new, all with as many pods as they want
/// and some of these available.
fn states(strategy: &'static str) -> impl Strategy<Value = String> {
    let sets = prop::collection::vec((0..12i32, 0..13i32, 1..9i32), 0..4);
    let head = (0..15i32, 0..5i32, 0..5i32, 0..15i32);
    (head, sets, any::<bool>()).prop_map(move |((replicas, surge, unavailable, was), sets, new)| {
        let count = sets.len();
        // The sets note a size that they fit in.
        let was = was.max(sets.iter().map(|set| set.0).sum::<i32>() - surge);
        let set = |(at, (size, available, revision)): (usize, (i32, i32, i32))| {
            let is_new = new && at + 1 == count;
            let name = if is_new {
                "new".to_string()
            } else {
                format!("s{at}")
            };
            format!(" {name}:{size}/{},rev={revision}", available.min(size))
        };
        let sets: String = sets.into_iter().enumerate().map(set).collect();
        let limits = format!("surge={surge} unavailable={unavailable} {strategy}");
        format!("replicas={replicas} was={was} {limits} history=2 |{sets}")
    })
}

/// What the cluster is like when a plan was carried out and all pods came up.
fn carried_out(snapshot: &Snapshot, round: i64) -> Snapshot {
    let plan = plan(snapshot, now());
    let deleted = |set: &ReplicaSet| {
        plan.steps.iter().any(|step| match step {
            super::super::Step::Delete(gone) => gone.metadata.name == set.metadata.name,
            _ => false,
        })
    };
    let sets: Vec<Arc<ReplicaSet>> = plan
        .after
        .old
        .iter()
        .chain(&plan.after.new)
        .filter(|set| !deleted(set))
        .map(|set| {
            let mut set = set.clone();
            let size = set.replicas();
            set.status.replicas = size;
            set.status.ready_replicas = size;
            set.status.available_replicas = size;
            if set.metadata.uid.is_empty() {
                set.metadata.uid = (&*set.metadata.name).into();
                set.metadata.created_at = Time::from_unix(1_700_000_100 + round);
            }
            set.metadata.owners = api::meta::intern_owners(vec![api::OwnerRef {
                uid: snapshot.deployment.metadata.uid.clone(),
                controller: Some(true),
                ..api::OwnerRef::default()
            }]);
            Arc::new(set)
        })
        .collect();
    let mut deployment = Deployment::clone(&snapshot.deployment);
    deployment.status = super::super::compute(&deployment, &plan.after, snapshot.gates, now());
    deployment.metadata.annotations = plan.after.annotations.clone();
    Snapshot {
        deployment: Arc::new(deployment),
        unfinished_pods: vec![0; sets.len()],
        sets,
        gates: snapshot.gates,
    }
}

fn wanted<'a>(sets: impl IntoIterator<Item = &'a ReplicaSet>) -> i32 {
    sets.into_iter().map(ReplicaSet::replicas).sum()
}

/// Pods that are still available once all sets have the size that is asked of them.
fn left_available<'a>(sets: impl IntoIterator<Item = &'a ReplicaSet>) -> i32 {
    let left = |set: &ReplicaSet| set.status.available_replicas.min(set.replicas());
    sets.into_iter().map(left).sum()
}

proptest! {
    #[test]
    fn a_rollout_stays_within_its_limits(text in states("")) {
        let snapshot = snapshot(&text);
        let deployment = &*snapshot.deployment;
        let after = plan(&snapshot, now()).after;
        let before = || snapshot.sets.iter().map(|set| &**set);
        let sets = || after.old.iter().chain(&after.new);

        prop_assert!(wanted(sets()) <= wanted(before()).max(most_replicas(deployment)));
        let resized = before().any(|set| set.replicas() > 0)
            && !text.contains(&format!("was={} ", deployment.replicas()));
        if !resized {
            let must_stay = deployment.replicas() - max_unavailable(deployment);
            prop_assert!(left_available(sets()) >= must_stay.min(left_available(before())));
        }
    }

    #[test]
    fn every_state_ends_in_a_finished_rollout(text in states(""), paused in any::<bool>()) {
        ends_well(snapshot(&text), paused)?;
    }

    #[test]
    fn every_state_ends_in_a_finished_recreation(text in states("recreate")) {
        ends_well(snapshot(&text), false)?;
    }
}

fn ends_well(mut state: Snapshot, paused_first: bool) -> Result<(), TestCaseError> {
    if paused_first {
        Arc::get_mut(&mut state.deployment).unwrap().spec.paused = true;
        state = carried_out(&state, 0);
        Arc::make_mut(&mut state.deployment).spec.paused = false;
    }
    let mut most = wanted(state.sets.iter().map(|set| &**set));
    // Every round moves at least one pod, and there are at most 60 of them.
    for round in 0..200 {
        let next = carried_out(&state, round);
        prop_assert_eq!(safe(&next.deployment, &next.sets, most), Ok(()));
        if steps(&plan(&state, now())).is_empty()
            && next.deployment.status == state.deployment.status
        {
            prop_assert_eq!(converged(&next.deployment, &next.sets), Ok(()));
            prop_assert_eq!(keeps_enough(&next.deployment, &next.sets, i32::MAX), Ok(()));
            return Ok(());
        }
        most = wanted(next.sets.iter().map(|set| &**set));
        state = next;
    }
    let last = steps(&plan(&state, now()));
    Err(TestCaseError::fail(format!("still moves: {last}")))
}
