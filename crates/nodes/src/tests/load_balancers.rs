//! Services and Ingresses that get an address.

use super::*;
use crate::load_balancer::{CLASS, DEFAULT_RANGE, Ranges};

const SERVICES: ResourceType = ResourceType::namespaced("", "v1", "services", "Service");
const INGRESSES: ResourceType =
    ResourceType::namespaced("networking.k8s.io", "v1", "ingresses", "Ingress");
const CLASSES: ResourceType =
    ResourceType::cluster("networking.k8s.io", "v1", "ingressclasses", "IngressClass");

async fn balanced(range: &str) -> World {
    let mut config = Config::with_nodes(1);
    config.load_balancers = Some(Ranges::parse(range).unwrap());
    world(config).await
}

fn service(name: &str, spec: Value) -> Value {
    let mut service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {"type": "LoadBalancer", "selector": {"app": name}, "ports": [{"port": 80}]},
    });
    merge(&mut service, json!({"spec": spec}));
    service
}

async fn addresses(world: &World, kind: &ResourceType, name: &str) -> Value {
    let object = world.get(kind, name).await.unwrap();
    object["status"]["loadBalancer"].clone()
}

#[tokio::test(start_paused = true)]
async fn a_load_balancer_gets_an_address_and_loses_it_with_its_type() {
    let world = balanced(DEFAULT_RANGE).await;
    world.create(&SERVICES, service("web", json!({}))).await;
    let other = json!({"loadBalancerClass": "example.com/other"});
    world.create(&SERVICES, service("theirs", other)).await;
    pass(&world, 1).await;
    let web = world.get(&SERVICES, "web").await.unwrap();
    assert_eq!(
        web["status"]["loadBalancer"],
        json!({"ingress": [{"ip": "192.0.2.1", "ipMode": "VIP"}]})
    );
    assert_eq!(
        web["metadata"]["finalizers"],
        json!(["service.kubernetes.io/load-balancer-cleanup"])
    );
    assert_eq!(addresses(&world, &SERVICES, "theirs").await, json!({}));

    let narrower = json!({"spec": {"type": "ClusterIP"}});
    world.patch(&SERVICES, "web", narrower).await;
    pass(&world, 1).await;
    let web = world.get(&SERVICES, "web").await.unwrap();
    assert_eq!(web["status"]["loadBalancer"], json!({}));
    assert_eq!(web["metadata"]["finalizers"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_for_an_address_gets_the_next_that_is_free() {
    // Of four addresses one names the network and one is that of the Ingresses.
    let world = balanced("192.0.2.0/30").await;
    for name in ["a", "b", "c"] {
        world.create(&SERVICES, service(name, json!({}))).await;
        pass(&world, 1).await;
    }
    assert_eq!(addresses(&world, &SERVICES, "c").await, json!({}));
    world.delete(&SERVICES, "a").await;
    pass(&world, 2).await;
    assert!(world.get(&SERVICES, "a").await.is_none(), "it is let go");
    assert_eq!(
        addresses(&world, &SERVICES, "c").await["ingress"][0]["ip"],
        "192.0.2.1"
    );
}

#[tokio::test(start_paused = true)]
async fn an_ingress_of_the_default_class_gets_the_shared_address() {
    let world = balanced(DEFAULT_RANGE).await;
    let class = world.get(&CLASSES, "simulated").await.unwrap();
    assert_eq!(class["spec"]["controller"], CLASS);
    let backend = json!({"service": {"name": "web", "port": {"number": 80}}});
    let ingress = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "web"},
        "spec": {"defaultBackend": backend},
    });
    world.create(&INGRESSES, ingress).await;
    pass(&world, 1).await;
    let ingress = world.get(&INGRESSES, "web").await.unwrap();
    assert_eq!(ingress["spec"]["ingressClassName"], "simulated");
    assert_eq!(
        ingress["status"]["loadBalancer"],
        json!({"ingress": [{"ip": "192.0.2.255"}]})
    );
    let other = json!({"spec": {"ingressClassName": "nginx"}});
    world.patch(&INGRESSES, "web", other).await;
    pass(&world, 1).await;
    assert_eq!(addresses(&world, &INGRESSES, "web").await, json!({}));
}
