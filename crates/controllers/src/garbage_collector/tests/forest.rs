//! Random forests of owners, cut down one by one: what is left is exactly what a model says.

use std::collections::{BTreeMap, BTreeSet};

use api::kinds::Metadata;
use api::{Meta, Resource, Rng};
use client::Propagation;
use serde_json::Value;
use testkit::World;

use super::super::{converged, safe};
use super::sync::{CONFIG_MAP, by, config_map, names, world};

/// Who owns whom, by name.
type Model = BTreeMap<String, BTreeSet<String>>;

fn cut(model: &mut Model, name: &str, propagation: Propagation) {
    model.remove(name);
    if propagation == Propagation::Orphan {
        for owners in model.values_mut() {
            owners.remove(name);
        }
    }
    loop {
        let alive: BTreeSet<String> = model.keys().cloned().collect();
        let lost = |owners: &BTreeSet<String>| !owners.is_empty() && owners.is_disjoint(&alive);
        model.retain(|_, owners| !lost(owners));
        if model.len() == alive.len() {
            break;
        }
    }
    let alive: BTreeSet<String> = model.keys().cloned().collect();
    for owners in model.values_mut() {
        owners.retain(|owner| alive.contains(owner));
    }
}

async fn objects(world: &World) -> Vec<Meta> {
    let all = world.list(&CONFIG_MAP).await;
    all.iter()
        .map(|object| {
            Metadata::decode(object.to_string().as_bytes())
                .unwrap()
                .metadata
        })
        .collect()
}

async fn grow(world: &World, rng: &Rng) -> Model {
    let mut model = Model::new();
    let mut made: Vec<Value> = Vec::new();
    for number in 0..12 {
        let name = format!("o{number:02}");
        let owners: BTreeSet<usize> = (0..rng.below(3))
            .filter(|_| number > 0)
            .map(|_| rng.below(number.max(1)))
            .collect();
        let references: Vec<&Value> = owners.iter().map(|owner| &made[*owner]).collect();
        let object = config_map(&name, &references);
        let owners = owners.iter().map(|owner| format!("o{owner:02}")).collect();
        made.push(world.create(&CONFIG_MAP, object).await);
        model.insert(name, owners);
    }
    world.wait_until_idle().await;
    model
}

#[tokio::test(start_paused = true)]
async fn what_is_left_is_what_the_model_says() {
    for seed in 0..6 {
        let (world, _) = world().await;
        let rng = Rng::from_seed(seed);
        let mut model = grow(&world, &rng).await;
        while !model.is_empty() {
            let before = objects(&world).await;
            let name = model.keys().nth(rng.below(model.len())).unwrap().clone();
            let propagation = [
                Propagation::Background,
                Propagation::Foreground,
                Propagation::Orphan,
            ][rng.below(3)];
            world
                .delete_with(&CONFIG_MAP, &name, &by(propagation))
                .await;
            world.wait_until_idle().await;
            cut(&mut model, &name, propagation);
            let expected: Vec<&String> = model.keys().collect();
            assert_eq!(
                names(&world).await.iter().collect::<Vec<_>>(),
                expected,
                "seed {seed}: {name} by {propagation:?}"
            );
            let after = objects(&world).await;
            converged(after.iter()).unwrap();
            let left: BTreeSet<&str> = after.iter().map(|meta| &*meta.name).collect();
            let by_collector = before
                .iter()
                .filter(|meta| *meta.name != *name && !left.contains(&*meta.name));
            for gone in by_collector {
                safe(gone, after.iter()).unwrap();
            }
        }
    }
}
