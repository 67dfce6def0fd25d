//! Gates that change what is valid.

use api::{Gate, Gates};

use super::*;

#[tokio::test(start_paused = true)]
async fn an_autoscaler_scales_to_zero_where_the_gate_is_on() {
    let path = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
    let target = json!({"type": "Value", "value": "1"});
    let external = json!({"metric": {"name": "queue"}, "target": target});
    let spec = json!({
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "minReplicas": 0, "maxReplicas": 3, "metrics": [{"type": "External", "external": external}],
    });
    let autoscaler = json!({"metadata": {"name": "web"}, "spec": spec});
    let one = json!({"spec": {"minReplicas": 1}});
    let none = json!({"spec": {"minReplicas": 0}});
    for on in [true, false] {
        let gates = Gates::default().with(Gate::HPAScaleToZero, on);
        let server = Server::with(|options| options.settings.gates = gates);
        let (code, made) = server.post(path, autoscaler.clone()).await;
        assert_eq!(code, if on { 201 } else { 422 }, "{made}");
        if !on {
            let mut more = autoscaler.clone();
            more["spec"]["minReplicas"] = json!(1);
            assert_eq!(server.post(path, more).await.0, 201);
        }
        let path = format!("{path}/web");
        assert_eq!(server.patch(&path, "merge-patch", one.clone()).await.0, 200);
        let (code, changed) = server.patch(&path, "merge-patch", none.clone()).await;
        assert_eq!(code, if on { 200 } else { 422 }, "{changed}");
    }
}
