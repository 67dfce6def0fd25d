//! A world with the controller in it, told in short lines.

use api::kinds::{Job, Pod};
use api::{Gates, Resource};
use serde_json::{Value, json};
use testkit::{World, Write};

use super::super::controller;
use runtime::Context;

/// Pods are called `p1`, `p2` and so on, in the order in which they were first seen.
pub struct Scenario {
    pub world: World,
    pub metrics: runtime::Metrics,
    pods: Vec<(String, String)>,
}

impl Scenario {
    pub async fn begin() -> Scenario {
        Scenario::with(Gates::default()).await
    }

    pub async fn with(gates: Gates) -> Scenario {
        let mut world = World::new().await;
        let context = Context {
            gates,
            ..world.context()
        };
        let metrics = context.metrics.clone();
        let controllers = controller(&context, 5);
        world.run(controllers.jobs.run(world.stop()));
        world.run(controllers.orphans.run(world.stop()));
        world.start().await;
        Scenario {
            world,
            metrics,
            pods: Vec::new(),
        }
    }

    /// Creates the job `j` with this spec, besides its template; tells what came of it.
    pub async fn create(&mut self, spec: Value) -> String {
        self.world.create(&Job::TYPE, job(spec)).await;
        self.tell().await
    }

    pub async fn change(&mut self, spec: Value) -> String {
        let patch = json!({"spec": spec});
        self.world.patch(&Job::TYPE, "j", patch).await;
        self.tell().await
    }

    /// Lets things settle, and tells what was written.
    pub async fn tell(&mut self) -> String {
        self.world.wait_until_idle().await;
        let mut pods = self.world.list(&Pod::TYPE).await;
        // In the order they were created, whatever their random names.
        let text = |pod: &Value, field: &str| pod["metadata"][field].as_str().unwrap().to_owned();
        pods.sort_by_cached_key(|pod| text(pod, "resourceVersion").parse::<u64>().unwrap());
        for pod in pods {
            let (name, uid) = (text(&pod, "name"), text(&pod, "uid"));
            if !self.pods.iter().any(|(known, _)| *known == name) {
                self.pods.push((name, uid));
            }
        }
        let writes = self.world.writes();
        let lines: Vec<String> = writes.iter().map(|write| self.line(write)).collect();
        lines.join("\n")
    }

    /// The name of the n-th pod.
    pub fn pod(&self, number: usize) -> String {
        self.pods[number - 1].0.clone()
    }

    /// The pod ends with this exit code.
    pub async fn exit(&self, number: usize, code: i32) {
        let phase = if code == 0 { "Succeeded" } else { "Failed" };
        let now = self.world.clock.now().time();
        let ended = json!({"terminated": {"exitCode": code, "finishedAt": now}});
        let status =
            json!({"phase": phase, "containerStatuses": [{"name": "main", "state": ended}]});
        self.world.pod_status(&self.pod(number), status).await;
    }

    pub async fn job(&self) -> Value {
        self.world.get(&Job::TYPE, "j").await.unwrap()
    }

    pub async fn status(&self) -> String {
        let status = self.job().await["status"].clone();
        self.named(&brief(&status))
    }

    /// `p1 Running held` and so on.
    pub async fn pods(&self) -> String {
        let pods = self.world.list(&Pod::TYPE).await;
        let mut lines: Vec<String> = pods
            .iter()
            .map(|pod| {
                let meta = &pod["metadata"];
                let name = self.named(meta["name"].as_str().unwrap());
                let phase = pod["status"]["phase"].as_str().unwrap();
                let held = if meta["finalizers"].is_null() {
                    ""
                } else {
                    " held"
                };
                let going = if meta["deletionTimestamp"].is_null() {
                    ""
                } else {
                    " going"
                };
                format!("{name} {phase}{held}{going}")
            })
            .collect();
        lines.sort();
        lines.join("\n")
    }

    pub async fn events(&self) -> String {
        let events = self.world.events().await;
        let mut lines: Vec<String> = events.iter().map(|event| self.named(event)).collect();
        lines.sort();
        lines.join("\n")
    }

    fn line(&self, write: &Write) -> String {
        let what = self.named(&write.to_string());
        let lets_go = json!({"metadata": {
            "$deleteFromPrimitiveList/finalizers": ["batch.kubernetes.io/job-tracking"],
        }});
        let body = match &write.body["status"] {
            _ if write.body == lets_go => "lets go".to_owned(),
            Value::Null if write.method == "PATCH" => self.named(&write.body.to_string()),
            Value::Null => String::new(),
            status => self.named(&brief(status)),
        };
        format!("{what} {body}").trim_end().to_owned()
    }

    fn named(&self, text: &str) -> String {
        let pods = self.pods.iter().enumerate();
        pods.fold(text.to_owned(), |text, (at, (name, uid))| {
            let short = format!("p{}", at + 1);
            text.replace(name, &short).replace(uid, &short)
        })
    }
}

pub fn job(spec: Value) -> Value {
    let mut job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"},
        "spec": {"template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}],
        }}},
    });
    for (field, value) in spec.as_object().unwrap() {
        job["spec"][field] = value.clone();
    }
    job
}

/// A status in a line: counts, lists, and conditions that are not over.
pub fn brief(status: &Value) -> String {
    let mut words = Vec::new();
    for (field, value) in status.as_object().into_iter().flatten() {
        match field.as_str() {
            "conditions" => words.extend(value.as_array().unwrap().iter().map(|held| {
                let text = |field: &str| held[field].as_str().unwrap_or_default().to_owned();
                let not = if held["status"] == "True" { "" } else { "not " };
                format!("{not}{}({})", text("type"), text("reason"))
            })),
            "uncountedTerminatedPods" if value == &json!({}) => {}
            "startTime" | "completionTime" => {
                let short = field.trim_end_matches("Time");
                words.push(format!("{short}={}", &value.as_str().unwrap()[14..19]));
            }
            "uncountedTerminatedPods" => words.push(format!("uncounted={value}")),
            _ => words.push(format!("{field}={value}")),
        }
    }
    words.sort();
    words.join(" ").replace('"', "")
}
