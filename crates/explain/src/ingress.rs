//! An Ingress: whose it is, and whether the Services behind it have anybody to send traffic to.

use api::ResourceType;
use std::collections::BTreeMap;

use serde_json::Value;

use crate::facts::Facts;
use crate::json::{list, number, text, time};
use crate::kinds::{Kind, Need};
use crate::service::{self, Verdict};
use crate::{Draft, Obstacle, State, help};

/// One path and where it leads.
struct Route<'a> {
    /// `shop.example.com/cart`
    from: String,
    backend: &'a Value,
}

/// More routes than this say nothing new.
const ROUTES_MAX: usize = 8;

pub(crate) const KIND: Kind = Kind {
    resource: INGRESS,
    inputs: &[],
    needs: &[Need::All(INGRESS_CLASS), Need::BehindIngress],
    explain,
    tells_deletion: false,
};

const INGRESS: ResourceType =
    ResourceType::namespaced("networking.k8s.io", "v1", "ingresses", "Ingress");
const INGRESS_CLASS: ResourceType =
    ResourceType::cluster("networking.k8s.io", "v1", "ingressclasses", "IngressClass");

pub(crate) fn explain(facts: &Facts, draft: &mut Draft<'_>) {
    let ingress = &facts.object;
    let routes = routes(ingress);
    for route in routes.iter().take(ROUTES_MAX) {
        draft.wants(format!("{} to go to {}", route.from, called(route.backend)));
    }
    if routes.len() > ROUTES_MAX {
        draft.wants(format!("{} more", routes.len() - ROUTES_MAX));
    }
    note_class(facts, draft);
    let mut by_service: BTreeMap<&str, Vec<&Route<'_>>> = BTreeMap::new();
    for route in &routes {
        let name = text(route.backend, "/service/name");
        by_service.entry(name).or_default().push(route);
    }
    by_service.remove("");
    for (name, routes) in &by_service {
        note_backend(facts, name, routes, draft);
    }
    note_address(facts, draft);
    conclude(by_service.len(), draft);
}

/// The names of the Services that an Ingress leads to.
pub fn backends(ingress: &Value) -> Vec<String> {
    let routes = routes(ingress);
    let names = routes
        .iter()
        .map(|route| text(route.backend, "/service/name"));
    let mut names: Vec<String> = names
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn routes(ingress: &Value) -> Vec<Route<'_>> {
    let mut found = Vec::new();
    for rule in list(ingress, "/spec/rules") {
        let host = match text(rule, "/host") {
            "" => "any host",
            host => host,
        };
        for path in list(rule, "/http/paths") {
            found.push(Route {
                from: format!("{host}{}", text(path, "/path")),
                backend: &path["backend"],
            });
        }
    }
    if let Some(backend) = ingress.pointer("/spec/defaultBackend") {
        found.push(Route {
            from: "everything else".to_owned(),
            backend,
        });
    }
    found
}

/// `service/web port http`
fn called(backend: &Value) -> String {
    match text(backend, "/service/name") {
        "" => format!(
            "{}/{}",
            text(backend, "/resource/kind").to_lowercase(),
            text(backend, "/resource/name")
        ),
        name => format!("service/{name} port {}", port_called(backend)),
    }
}

fn port_called(backend: &Value) -> String {
    match text(backend, "/service/port/name") {
        "" => number(backend, "/service/port/number").to_string(),
        name => name.to_owned(),
    }
}

/// The class decides who makes the Ingress work; without one nobody does.
fn note_class(facts: &Facts, draft: &mut Draft<'_>) {
    let ingress = &facts.object;
    let annotation = &ingress["metadata"]["annotations"]["kubernetes.io/ingress.class"];
    let asked = match text(ingress, "/spec/ingressClassName") {
        "" => annotation.as_str().unwrap_or_default(),
        name => name,
    };
    let mut classes = facts.of_kind("IngressClass");
    let found = classes.find(|class| text(class, "/metadata/name") == asked);
    let mut blocked = |why: String| {
        let since = time(ingress, "/metadata/creationTimestamp");
        draft.in_the_way(Obstacle::of(ingress, why).since(since));
    };
    match (asked, found) {
        ("", _) => {
            blocked("has no ingress class, and there was no default class when it was created: no controller serves it".to_owned());
            draft.offer(name_a_class());
        }
        (asked, Some(class)) => draft.sees(format!(
            "class {asked}, served by {}",
            text(class, "/spec/controller")
        )),
        // The old annotation names a controller by agreement, without an IngressClass.
        (asked, None) if text(ingress, "/spec/ingressClassName").is_empty() => {
            draft.sees(format!("class {asked}, by the old annotation"));
        }
        (asked, None) if facts.unread.contains("IngressClass") => {
            draft.sees(format!("class {asked}"));
        }
        (asked, None) => {
            blocked(format!(
                "its class {asked} does not exist: no controller serves it"
            ));
            draft.offer(name_a_class());
        }
    }
}

fn name_a_class() -> Option<help::Help> {
    Some(help::Help {
        command: "kubectl get ingressclasses".to_owned(),
        why: "shows which classes there are; name one in spec.ingressClassName".to_owned(),
    })
}

fn note_backend(facts: &Facts, name: &str, routes: &[&Route<'_>], draft: &mut Draft<'_>) {
    let object = format!("service/{name}");
    let obstacle = |why: String, passing| Obstacle::named("Service", name, why).passing(passing);
    let namespace = facts.namespace();
    let mut services = facts.of_kind("Service");
    let Some(service) = services.find(|service| {
        (
            text(service, "/metadata/namespace"),
            text(service, "/metadata/name"),
        ) == (namespace, name)
    }) else {
        if facts.unread.contains("Service") {
            return draft.sees(format!("{object} could not be read"));
        }
        draft.in_the_way(obstacle("does not exist".to_owned(), false));
        return draft.offer(help::on(
            facts,
            "get services",
            "shows which Services there are",
        ));
    };
    let lacks = |route: &&&Route<'_>| !has_port(service, route.backend);
    if let Some(route) = routes.iter().find(lacks) {
        let has: Vec<String> = list(service, "/spec/ports")
            .iter()
            .map(|port| match text(port, "/name") {
                "" => number(port, "/port").to_string(),
                name => format!("{} ({name})", number(port, "/port")),
            })
            .collect();
        let why = format!(
            "has no port {}: it has {}",
            port_called(route.backend),
            has.join(", ")
        );
        draft.in_the_way(obstacle(why, false));
    }
    let Verdict { state, text } = service::verdict(facts, service);
    match state {
        State::Settled | State::Unknown => draft.sees(format!("{object} {text}")),
        State::Progressing | State::Stuck => {
            draft.in_the_way(obstacle(text, state == State::Progressing));
            let namespace = facts.namespace();
            draft.offer(Some(help::Help {
                command: format!("steersman why {object} -n {namespace}"),
                why: "says which of its pods are left out, and why".to_owned(),
            }));
        }
    }
}

fn has_port(service: &Value, backend: &Value) -> bool {
    let (name, wanted) = (
        text(backend, "/service/port/name"),
        number(backend, "/service/port/number"),
    );
    list(service, "/spec/ports").iter().any(|port| match name {
        "" => number(port, "/port") == wanted,
        name => text(port, "/name") == name,
    })
}

fn note_address(facts: &Facts, draft: &mut Draft<'_>) {
    let ingress = &facts.object;
    let given: Vec<&str> = list(ingress, "/status/loadBalancer/ingress")
        .iter()
        .map(|point| match text(point, "/ip") {
            "" => text(point, "/hostname"),
            address => address,
        })
        .collect();
    if !given.is_empty() {
        return draft.sees(format!("address {}", given.join(", ")));
    }
    let has_cause = draft
        .explanation
        .in_the_way
        .iter()
        .any(|obstacle| obstacle.object == draft.explanation.object);
    if !has_cause {
        let why = "has no address: the controller of its class has given none yet";
        let since = time(ingress, "/metadata/creationTimestamp");
        draft.in_the_way(Obstacle::of(ingress, why).since(since).passing(true));
    }
}

fn conclude(services: usize, draft: &mut Draft<'_>) {
    let obstacles = &draft.explanation.in_the_way;
    let worst = obstacles.iter().position(|obstacle| !obstacle.passing);
    let worst = draft.explanation.in_the_way.get_mut(worst.unwrap_or(0));
    let Some(worst) = worst else {
        let all = match services {
            0 => "leads to no Service".to_owned(),
            1 => "its Service has endpoints".to_owned(),
            count => format!("all {count} Services behind it have endpoints"),
        };
        return draft.conclude(State::Settled, all);
    };
    let state = match worst.passing {
        true => State::Progressing,
        false => State::Stuck,
    };
    worst.in_verdict = worst.object == draft.explanation.object;
    let text = match worst.in_verdict {
        true => worst.why.to_string(),
        false => format!("{} {}", worst.object, worst.why),
    };
    draft.conclude(state, text);
}
