//! The configuration in the shape that `/configz` shows: upstream's KubeControllerManagerConfiguration. The groups of
//! single controllers are [`controllers::config`]'s.

use std::ops::Deref;

use api::GoDuration;
use serde::{Serialize, Serializer};

use crate::flags::Parsed;
use crate::leader_migration::LeaderMigrationConfiguration;

/// Declares a settings struct whose fields come from flags: Rust name, name in `/configz`, type, flag.
macro_rules! settings {
    ($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty = $wire:literal $read:ident $flag:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Serialize)]
        pub struct $name {
            $(#[serde(rename = $wire)] pub $field: $type,)*
        }

        impl $name {
            fn read(flags: &Parsed) -> $name {
                $name { $($field: flags.$read($flag).into(),)* }
            }
        }
    };
}

/// All settings: the general ones, and one group per controller.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Config {
    #[serde(rename = "Generic")]
    pub generic: Generic,
    #[serde(flatten)]
    pub controllers: controllers::Config,
}

impl Config {
    pub(crate) fn read(flags: &Parsed) -> Config {
        Config {
            generic: Generic::read(flags),
            controllers: controllers::Config::read(flags),
        }
    }
}

impl Deref for Config {
    type Target = controllers::Config;

    fn deref(&self) -> &controllers::Config {
        &self.controllers
    }
}

impl controllers::config::Flags for Parsed {
    fn bool(&self, name: &str) -> bool {
        Parsed::bool(self, name)
    }

    fn int32(&self, name: &str) -> i32 {
        Parsed::int32(self, name)
    }

    fn float(&self, name: &str) -> f64 {
        Parsed::float(self, name)
    }

    fn float32(&self, name: &str) -> f32 {
        Parsed::float32(self, name)
    }

    fn text(&self, name: &str) -> &str {
        Parsed::text(self, name)
    }

    fn duration(&self, name: &str) -> GoDuration {
        Parsed::duration(self, name)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Generic {
    /// UPSTREAM: left over from the insecure port; always 0 and 0.0.0.0.
    pub port: i32,
    pub address: &'static str,
    pub min_resync_period: GoDuration,
    pub client_connection: ClientConnection,
    pub controller_start_interval: GoDuration,
    pub leader_election: LeaderElection,
    /// --controllers with aliases replaced by names.
    pub controllers: Vec<String>,
    pub debugging: Debugging,
    pub leader_migration_enabled: bool,
    pub leader_migration: LeaderMigrationConfiguration,
}

impl Generic {
    fn read(flags: &Parsed) -> Generic {
        Generic {
            port: 0,
            address: "0.0.0.0",
            min_resync_period: flags.duration("min-resync-period"),
            client_connection: ClientConnection::read(flags),
            controller_start_interval: flags.duration("controller-start-interval"),
            leader_election: LeaderElection::read(flags),
            controllers: flags.list("controllers").to_vec(),
            debugging: Debugging::read(flags),
            leader_migration_enabled: flags.bool("enable-leader-migration"),
            leader_migration: LeaderMigrationConfiguration::default(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClientConnection {
    pub kubeconfig: String,
    pub accept_content_types: &'static str,
    pub content_type: String,
    #[serde(serialize_with = "go_float32")]
    pub qps: f32,
    pub burst: i32,
}

impl ClientConnection {
    fn read(flags: &Parsed) -> ClientConnection {
        ClientConnection {
            kubeconfig: flags.text("kubeconfig").to_owned(),
            accept_content_types: "",
            content_type: flags.text("kube-api-content-type").to_owned(),
            qps: flags.float32("kube-api-qps"),
            burst: flags.int32("kube-api-burst"),
        }
    }
}

settings!(LeaderElection {
    leader_elect: bool = "leaderElect" bool "leader-elect",
    lease_duration: GoDuration = "leaseDuration" duration "leader-elect-lease-duration",
    renew_deadline: GoDuration = "renewDeadline" duration "leader-elect-renew-deadline",
    retry_period: GoDuration = "retryPeriod" duration "leader-elect-retry-period",
    resource_lock: String = "resourceLock" text "leader-elect-resource-lock",
    resource_name: String = "resourceName" text "leader-elect-resource-name",
    resource_namespace: String = "resourceNamespace" text "leader-elect-resource-namespace",
});

settings!(Debugging {
    enable_profiling: bool = "enableProfiling" bool "profiling",
    enable_contention_profiling: bool = "enableContentionProfiling" bool "contention-profiling",
});

/// Go writes a whole number without a decimal point, also when its type is a float.
fn go_float32<S: Serializer>(number: &f32, serializer: S) -> Result<S::Ok, S::Error> {
    if number.fract() == 0.0 && number.abs() < 1e15 {
        serializer.serialize_i64(*number as i64)
    } else {
        serializer.serialize_f32(*number)
    }
}
