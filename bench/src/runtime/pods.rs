//! Pods as a real cluster has them: 5 KB of JSON with status, and what the API server adds.

use std::fmt::Write as _;

/// Pods come from this many ReplicaSets and run on this many nodes.
pub(super) const REPLICA_SETS: usize = 2000;
const NODES: usize = 1000;
const NAMESPACES: usize = 50;

/// The watch event for one pod, with its newline. `beat` changes what kubelets change all the time
/// and no controller reads.
pub(super) fn event(kind: &str, number: usize, revision: usize, beat: usize) -> String {
    let mut line = String::with_capacity(6 << 10);
    let _ = write!(line, "{{\"type\":\"{kind}\",\"object\":");
    pod(&mut line, number, revision, beat);
    line.push_str("}\n");
    line
}

/// The ReplicaSet number `set` with `replicas` pods that are all available.
pub(super) fn replica_set(set: usize, replicas: usize) -> String {
    let labels =
        format!(r#"{{"app.kubernetes.io/name":"service-{set}","pod-template-hash":"6d4cf56db6"}}"#);
    format!(
        r#"{{"type":"ADDED","object":{{"kind":"ReplicaSet","apiVersion":"apps/v1","metadata":{{"name":"service-{set}-6d4cf56db6","namespace":"team-{namespace}","uid":"{uid}","resourceVersion":"1","generation":1}},"spec":{{"replicas":{replicas},"selector":{{"matchLabels":{labels}}},"template":{{"metadata":{{"labels":{labels}}},"spec":{{"containers":[{{"name":"c0","image":"x"}}]}}}}}},"status":{{"replicas":{replicas},"fullyLabeledReplicas":{replicas},"readyReplicas":{replicas},"availableReplicas":{replicas},"terminatingReplicas":0,"observedGeneration":1}}}}}}
"#,
        namespace = set % NAMESPACES,
        uid = uid(set, 2),
    )
}

fn pod(json: &mut String, number: usize, revision: usize, beat: usize) {
    let set = number % REPLICA_SETS;
    let (namespace, node) = (set % NAMESPACES, number % NODES);
    let suffix = suffix(number);
    let containers = 1 + set % 3;
    let _ = write!(
        json,
        r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"service-{set}-6d4cf56db6-{suffix}","generateName":"service-{set}-6d4cf56db6-","namespace":"team-{namespace}","uid":"{uid}","resourceVersion":"{revision}","generation":1,"creationTimestamp":"2026-03-01T10:{minute:02}:{second:02}Z","labels":{{"app.kubernetes.io/name":"service-{set}","app.kubernetes.io/part-of":"shop","pod-template-hash":"6d4cf56db6","team":"team-{namespace}"}},"annotations":{{"prometheus.io/scrape":"true","prometheus.io/port":"9090","checksum/config":"{set:064x}"}},"ownerReferences":[{{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"service-{set}-6d4cf56db6","uid":"{owner}","controller":true,"blockOwnerDeletion":true}}]}},"#,
        uid = uid(number, 1),
        owner = uid(set, 2),
        minute = number / 60 % 60,
        second = number % 60,
    );
    let _ = write!(
        json,
        r#""spec":{{"volumes":[{{"name":"config","configMap":{{"name":"service-{set}","defaultMode":420}}}},{{"name":"cache","emptyDir":{{}}}},{{"name":"kube-api-access-{suffix}","projected":{{"sources":[{{"serviceAccountToken":{{"expirationSeconds":3607,"path":"token"}}}},{{"configMap":{{"name":"kube-root-ca.crt","items":[{{"key":"ca.crt","path":"ca.crt"}}]}}}},{{"downwardAPI":{{"items":[{{"path":"namespace","fieldRef":{{"apiVersion":"v1","fieldPath":"metadata.namespace"}}}}]}}}}],"defaultMode":420}}}}],"containers":["#
    );
    for container in 0..containers {
        let comma = if container > 0 { "," } else { "" };
        let _ = write!(
            json,
            r#"{comma}{{"name":"c{container}","image":"registry.example.com/shop/service-{set}:v1.2.{container}","ports":[{{"name":"http","containerPort":8080,"protocol":"TCP"}},{{"name":"metrics","containerPort":9090,"protocol":"TCP"}}],"env":[{{"name":"POD_NAME","valueFrom":{{"fieldRef":{{"apiVersion":"v1","fieldPath":"metadata.name"}}}}}}],"resources":{{"limits":{{"cpu":"500m","memory":"512Mi"}},"requests":{{"cpu":"100m","memory":"128Mi"}}}},"volumeMounts":[{{"name":"config","mountPath":"/etc/service"}},{{"name":"cache","mountPath":"/var/cache"}},{{"name":"kube-api-access-{suffix}","readOnly":true,"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}}],"readinessProbe":{{"httpGet":{{"path":"/ready","port":"http","scheme":"HTTP"}},"timeoutSeconds":1,"periodSeconds":5,"successThreshold":1,"failureThreshold":3}},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent"}}"#
        );
    }
    let _ = write!(
        json,
        r#"],"restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","serviceAccountName":"service-{set}","serviceAccount":"service-{set}","nodeName":"node-{node}","securityContext":{{"fsGroup":2000}},"schedulerName":"default-scheduler","tolerations":[{{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}},{{"key":"node.kubernetes.io/unreachable","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}}],"priority":0,"enableServiceLinks":true,"preemptionPolicy":"PreemptLowerPriority"}},"status":{{"phase":"Running","conditions":["#
    );
    for (index, condition) in [
        "PodReadyToStartContainers",
        "Initialized",
        "Ready",
        "ContainersReady",
        "PodScheduled",
    ]
    .iter()
    .enumerate()
    {
        let comma = if index > 0 { "," } else { "" };
        let _ = write!(
            json,
            r#"{comma}{{"type":"{condition}","observedGeneration":1,"status":"True","lastProbeTime":null,"lastTransitionTime":"2026-03-01T10:00:{:02}Z"}}"#,
            number % 60
        );
    }
    let (high, low) = (number / 250 % 250, number % 250);
    let _ = write!(
        json,
        r#"],"hostIP":"10.0.{high}.{low}","hostIPs":[{{"ip":"10.0.{high}.{low}"}}],"podIP":"10.244.{high}.{low}","podIPs":[{{"ip":"10.244.{high}.{low}"}}],"message":"beat {beat}","startTime":"2026-03-01T10:00:00Z","containerStatuses":["#
    );
    for container in 0..containers {
        let comma = if container > 0 { "," } else { "" };
        let _ = write!(
            json,
            r#"{comma}{{"name":"c{container}","state":{{"running":{{"startedAt":"2026-03-01T10:00:01Z"}}}},"lastState":{{}},"ready":true,"restartCount":0,"image":"registry.example.com/shop/service-{set}:v1.2.{container}","imageID":"registry.example.com/shop/service-{set}@sha256:{set:064x}","containerID":"containerd://{number:064x}","started":true}}"#
        );
    }
    json.push_str(r#"],"qosClass":"Burstable"}}"#);
}

fn uid(number: usize, family: usize) -> String {
    // Spread over all bits, as random uids are.
    let bits = (number as u128 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)
        ^ (family as u128) << 64;
    let hex = format!("{bits:032x}");
    format!(
        "{}-{}-4{}-a{}-{}",
        &hex[..8],
        &hex[8..12],
        &hex[13..16],
        &hex[17..20],
        &hex[20..]
    )
}

/// Five letters, as the API server makes them.
fn suffix(number: usize) -> String {
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut rest = number;
    (0..5)
        .map(|_| {
            let letter = LETTERS[rest % LETTERS.len()];
            rest /= LETTERS.len();
            letter as char
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::Resource;
    use api::kinds::Pod;

    #[test]
    fn pods_are_whole_and_of_a_realistic_size() {
        let sizes: Vec<usize> = (0..3000)
            .map(|number| {
                let line = event("ADDED", number, number + 1, 0);
                let event: serde_json::Value = serde_json::from_str(&line).unwrap();
                let json = event["object"].to_string();
                let pod = Pod::decode(json.as_bytes()).unwrap();
                assert!(pod.is_ready() && pod.metadata.controller().is_some());
                json.len()
            })
            .collect();
        let mean = sizes.iter().sum::<usize>() / sizes.len();
        assert!((4500..=5500).contains(&mean), "{mean}");
    }
}
