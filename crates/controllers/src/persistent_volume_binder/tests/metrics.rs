//! Upstream: TestVolumeOperationError.

use runtime::Store;
use testkit::World;

use super::super::metrics::BinderMetrics;
use super::{claim, volume};

#[tokio::test(start_paused = true)]
async fn failures_and_what_is_bound_are_counted() {
    let context = World::new().await.context();
    let metrics = BinderMetrics::new(&context);
    metrics.failed("p", "delete");
    metrics.class_assigned(false);
    metrics.class_assigned(true);
    let (volumes, claims) = (Store::new(), Store::new());
    for text in [
        "a",
        "b class=fast phase=Bound",
        "c source=nfs",
        "d source=csi",
    ] {
        volumes.put(volume(text));
    }
    claims.put(claim("data class=fast attributes=gold phase=Bound"));
    metrics.count(&volumes, &claims);
    volumes.remove("", "c");
    metrics.count(&volumes, &claims);
    let text = context.metrics.render();
    let told = text.lines().filter(|line| {
        let ours = ["pv_collector_", "volume_operation_", "retroactive_"];
        ours.iter().any(|prefix| line.starts_with(prefix))
    });
    let told: Vec<&str> = told.collect();
    assert_eq!(
        told,
        [
            r#"pv_collector_bound_pv_count{storage_class="fast"} 1"#,
            r#"pv_collector_bound_pvc_count{namespace="shop",storage_class="fast",volume_attributes_class="gold"} 1"#,
            r#"pv_collector_total_pv_count{plugin_name="N/A",volume_mode="Filesystem"} 1"#,
            r#"pv_collector_total_pv_count{plugin_name="kubernetes.io/host-path",volume_mode="Filesystem"} 2"#,
            r#"pv_collector_unbound_pv_count{storage_class=""} 2"#,
            "retroactive_storageclass_errors_total 1",
            "retroactive_storageclass_total 2",
            r#"volume_operation_errors_total{operation_name="delete",plugin_name="p"} 1"#,
            r#"volume_operation_total_errors{operation_name="delete",plugin_name="p"} 1"#,
        ]
    );
}
