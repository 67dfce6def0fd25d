//! What descriptors declare is what controllers do: nothing is a list that can rot.

use std::any::TypeId;
use std::collections::BTreeSet;
use std::sync::Arc;

use api::{Clock, Gate, Gates, Rng, Time};
use client::Client;
use controllers::csr_signing::CaSource;
use controllers::garbage_collector::Memory;
use controllers::{ALL, Descriptor, Environment};
use runtime::informer::{MetadataStreams, StreamOptions};
use runtime::{Decisions, Informers, Metrics};

use crate::options::{Command, Options};
use crate::selection;

/// A server that never answers.
fn silence() -> Client {
    let wait = |_| std::future::pending::<Result<http::Response<client::Body>, client::BoxError>>();
    Client::new(client::Transport::new(tower::service_fn(wait)))
}

fn environment(metrics: &Metrics) -> Environment {
    // One controller is built with these flags only.
    let flags = ["--allocate-node-cidrs", "--cluster-cidr=10.244.0.0/16"];
    let Ok(Command::Run(options)) = Options::parse(flags, "x") else {
        unreachable!("these flags are fine");
    };
    let stream = StreamOptions {
        rng: Rng::from_seed(1),
        resync: None,
    };
    let key = rcgen::KeyPair::generate().map(|key| key.serialize_pem().into_bytes());
    let streams = MetadataStreams::new(silence(), stream.clone());
    Environment {
        informers: Arc::new(Informers::new(silence(), stream)),
        metadata: silence(),
        collector: Memory::new(streams.clone()),
        streams,
        root_ca: Some("the root".into()),
        service_account_key: key.ok(),
        cluster_ca: Some(CaSource::Fixed {
            certificate: include_str!("../../controllers/src/certificates/testdata/ca.crt").into(),
            key: include_str!("../../controllers/src/certificates/testdata/ca.key").into(),
        }),
        config: options.config.controllers.clone(),
        gates: options.gates.for_controllers(),
        clock: Clock::new(|| Time::from_unix(0).micro()),
        rng: Rng::from_seed(1),
        metrics: metrics.clone(),
        decisions: Decisions::new(),
    }
}

/// Puts every controller together, as far as its configuration allows. None of them runs.
pub(crate) fn build_all(metrics: &Metrics) {
    let environment = environment(metrics);
    for descriptor in controllers::built() {
        assert!(
            descriptor.build(&environment, silence()).is_some(),
            "{} is built",
            descriptor.name
        );
    }
}

/// The values that a label has in all families.
fn label_values(metrics: &Metrics, family: &str, label: &str) -> BTreeSet<String> {
    let families = metrics.registry().gather();
    let samples = families.iter().filter(|found| found.name() == family);
    let samples = samples.flat_map(|found| found.get_metric());
    let labels = samples.flat_map(|sample| sample.get_label());
    let values = labels.filter(|found| found.name() == label);
    values.map(|found| found.value().to_owned()).collect()
}

/// The kinds that a controller caches are those that its descriptor declares.
fn check_caches(descriptor: &Descriptor, environment: &Environment) {
    let gates = environment.gates;
    let declared = descriptor.cached(gates);
    let declared = declared.map(|view| view.resource.to_string());
    let used = environment.informers.resources();
    let used: BTreeSet<String> = used.iter().map(ToString::to_string).collect();
    let name = descriptor.name;
    assert_eq!(
        declared.collect::<BTreeSet<_>>(),
        used,
        "caches of {name} with {gates:?}"
    );
}

#[tokio::test]
async fn what_a_controller_caches_with_any_gates_is_declared() {
    for descriptor in controllers::built() {
        for is_on in [true, false] {
            let all = Gate::ALL.iter();
            let gates = all.fold(Gates::default(), |gates, gate| gates.with(*gate, is_on));
            let environment = Environment {
                gates,
                ..environment(&Metrics::new())
            };
            let built = descriptor.build(&environment, silence());
            assert!(built.is_some(), "{}", descriptor.name);
            check_caches(descriptor, &environment);
        }
    }
}

#[tokio::test]
async fn what_a_descriptor_declares_is_what_its_controller_uses() {
    for descriptor in controllers::built() {
        let (name, metrics) = (descriptor.name, Metrics::new());
        let environment = environment(&metrics);
        let built = descriptor.build(&environment, silence());
        let built = built.unwrap_or_else(|| panic!("{name} is built with the default flags"));
        assert_eq!(built.controller.name, name);

        check_caches(descriptor, &environment);

        let declared = descriptor.queues.iter().map(ToString::to_string);
        let used = label_values(&metrics, "workqueue_depth", "name");
        assert_eq!(declared.collect::<BTreeSet<_>>(), used, "queues of {name}");

        let common = Metrics::new().asked_for();
        for family in metrics.asked_for().keys() {
            let is_own = descriptor
                .metrics
                .iter()
                .any(|prefix| family.starts_with(prefix));
            assert!(
                is_own || common.contains_key(family),
                "{name} does not declare {family}"
            );
        }
    }
}

#[test]
fn names_are_unique_and_all_have_an_identity() {
    let names = ALL.iter().flat_map(|one| [one.name, one.alias]);
    let names: Vec<&str> = names.filter(|name| !name.is_empty()).collect();
    let unique: BTreeSet<&str> = names.iter().copied().collect();
    assert_eq!(names.len(), unique.len());
    for descriptor in &ALL {
        let has_no_account = descriptor.service_account.is_empty();
        assert_eq!(has_no_account, descriptor.cloud, "{}", descriptor.name);
    }
    assert_eq!(
        ALL[0].name, "serviceaccount-token-controller",
        "upstream's first"
    );
    assert_eq!(selection::known_names().len(), ALL.len());
}

#[test]
fn every_controller_that_is_built_has_an_oracle_for_the_simulator() {
    for descriptor in controllers::built() {
        assert!(descriptor.oracle.is_some(), "{}", descriptor.name);
    }
}

/// A second view of a kind is a second watch, and every object of it once more in memory.
#[test]
fn no_kind_is_cached_in_two_views() {
    let views = ALL.iter().flat_map(|one| {
        let gated = one.gated_caches.iter().map(|(_, view)| view);
        one.caches.iter().chain(gated)
    });
    let views: BTreeSet<(String, TypeId)> = views
        .map(|view| (view.resource.to_string(), view.type_id()))
        .collect();
    let mut kinds: Vec<&str> = views.iter().map(|(kind, _)| &**kind).collect();
    let all = kinds.clone();
    kinds.dedup();
    assert_eq!(kinds, all);
}
