//! Binding a pod to a node: what schedulers do.

use crate::admission::Operation;
use crate::fields::object_mut;
use crate::rest::metadata::{is_deleting, metadata_mut, text};
use crate::rest::{Context, response};
use crate::status::{Status, Subject};
use crate::storage::Transaction;
use crate::{Body, semantics};
use api::Time;
use http::Response;
use serde_json::{Value, json};

impl Context {
    pub(crate) async fn bind(&mut self) -> Result<Response<Body>, Status> {
        let dry_run = self.create_options()?;
        let mut binding = self.decode_part("v1", "Binding")?;
        if self.info.name.is_empty() {
            self.info.name = text(&binding, "name").to_owned();
        }
        self.match_name(&mut binding)?;
        self.match_namespace(&mut binding)?;
        self.object_key()?;
        let shown = Some(("v1", "Binding"));
        let binding = self
            .admit_unstored(Operation::Create, shown, binding, dry_run)
            .await?;
        let shared = self.shared.clone();
        let ((), revision) = shared
            .store
            .write(|transaction| self.bind_in(transaction, &binding, dry_run))?;
        self.wait_durable(revision).await?;
        Ok(response::value(
            201,
            &json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}),
        ))
    }

    fn bind_in(
        &mut self,
        transaction: &mut Transaction<'_>,
        binding: &Value,
        dry_run: bool,
    ) -> Result<(), Status> {
        let target = &binding["target"];
        let node = target["name"].as_str().unwrap_or_default();
        let target_kind = target["kind"].as_str().unwrap_or_default();
        // UPSTREAM: errors are returned as they are, which makes a 500.
        if !matches!(target_kind, "" | "Node") {
            let quoted = api::syntax::go_quote(target_kind);
            return Err(Status::unexpected(format!(
                "target.kind: Unsupported value: {quoted}: supported values: \"Node\", \"<empty>\""
            )));
        }
        if node.is_empty() {
            return Err(Status::unexpected("target.name: Required value"));
        }
        let Some(pods) = self.registry.resource("", "v1", "pods").cloned() else {
            return Err(Status::no_such_path());
        };
        let name = self.info.name.clone();
        let subject = Subject {
            group: "",
            plural: "pods",
            name: &name,
        };
        let binding_subject = Subject {
            group: "",
            plural: "pods/binding",
            name: &name,
        };
        let key = format!("{}/{name}", self.info.namespace);
        let old = transaction
            .get(&pods, &key)
            .ok_or_else(|| Status::not_found(subject))?;
        let mut pod = old.working(&pods);
        let wanted_uid = text(binding, "uid");
        if !wanted_uid.is_empty() && wanted_uid != text(&pod, "uid") {
            let why = format!(
                "Precondition failed: UID in precondition: {wanted_uid}, UID in object meta: {}",
                text(&pod, "uid")
            );
            return Err(Status::conflict(binding_subject, &why));
        }
        if is_deleting(&pod) {
            let why = format!("pod {name} is being deleted, cannot be assigned to a host");
            return Err(Status::conflict(binding_subject, &why));
        }
        let current = pod["spec"]["nodeName"].as_str().unwrap_or_default();
        if !current.is_empty() {
            let why = format!("pod {name} is already assigned to node \"{current}\"");
            return Err(Status::conflict(binding_subject, &why));
        }
        if pod["spec"]["schedulingGates"]
            .as_array()
            .is_some_and(|gates| !gates.is_empty())
        {
            let why = format!("pod {name} has non-empty .spec.schedulingGates");
            return Err(Status::conflict(binding_subject, &why));
        }
        if !pod["spec"].is_object() {
            return Err(Status::internal("the pod has no spec"));
        }
        pod["spec"]["nodeName"] = json!(node);
        for (key, value) in binding["metadata"]["annotations"]
            .as_object()
            .into_iter()
            .flatten()
        {
            let metadata = metadata_mut(&mut pod);
            let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
            if let Some(annotations) = annotations.as_object_mut() {
                annotations.insert(key.clone(), value.clone());
            }
        }
        let given = binding["metadata"]["labels"].as_object();
        let mut labels: Vec<(String, Value)> = given
            .into_iter()
            .flatten()
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        if target_kind == "Node" {
            labels.extend(semantics::place_of(&self.shared, node));
        }
        if !labels.is_empty() {
            object_mut(&mut pod, "metadata.labels").extend(labels);
        }
        mark_scheduled(&mut pod, self.shared.now_seconds());
        if !dry_run {
            transaction.put(&pods, &key, &pod, None);
        }
        Ok(())
    }
}

fn mark_scheduled(pod: &mut Value, now: i64) {
    let Some(map) = pod.as_object_mut() else {
        return;
    };
    let status = map.entry("status").or_insert_with(|| json!({}));
    let Some(status) = status.as_object_mut() else {
        return;
    };
    let conditions = status.entry("conditions").or_insert_with(|| json!([]));
    let Some(list) = conditions.as_array_mut() else {
        return;
    };
    let scheduled = json!({
        "type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": Time::from_unix(now).to_string(),
    });
    match list
        .iter_mut()
        .find(|condition| condition["type"] == "PodScheduled")
    {
        Some(condition) if condition["status"] == "True" => {}
        Some(condition) => *condition = scheduled,
        None => list.push(scheduled),
    }
}
