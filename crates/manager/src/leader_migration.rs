//! Leader migration: moving controllers between two managers, with a second lock for those that move.

use serde::{Deserialize, Serialize};

/// The file of --leader-migration-config.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LeaderMigrationConfiguration {
    pub leader_name: String,
    pub resource_lock: String,
    /// None is written as null, as upstream does when migration is off.
    pub controller_leaders: Option<Vec<ControllerLeader>>,
}

/// Which manager runs a controller; "*" stands for any that asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ControllerLeader {
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub component: String,
}

/// Under which lock a controller runs here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    Main,
    Migration,
    /// Another manager runs it.
    None,
}

/// The component name of this manager in such files.
const COMPONENT: &str = "kube-controller-manager";

#[derive(Deserialize)]
#[serde(
    rename_all = "camelCase",
    deny_unknown_fields,
    expecting = "a LeaderMigrationConfiguration"
)]
struct File {
    api_version: String,
    kind: String,
    #[serde(default)]
    leader_name: String,
    #[serde(default)]
    resource_lock: Option<String>,
    #[serde(default)]
    controller_leaders: Vec<ControllerLeader>,
}

impl LeaderMigrationConfiguration {
    /// The mapping in force when migration is on and no file is given.
    pub fn built_in() -> LeaderMigrationConfiguration {
        let moving = [
            "route-controller",
            "service-controller",
            "cloud-node-lifecycle-controller",
        ];
        let leader = |name: &str| ControllerLeader {
            name: name.into(),
            component: "*".into(),
        };
        LeaderMigrationConfiguration {
            leader_name: "cloud-provider-extraction-migration".into(),
            resource_lock: "leases".into(),
            controller_leaders: Some(moving.into_iter().map(leader).collect()),
        }
    }

    /// Reads and checks a file's text. The error is a phrase to follow the file's name.
    pub fn parse(text: &str) -> Result<LeaderMigrationConfiguration, String> {
        let file: File = api::yaml::from_str(text).map_err(|error| error.to_string())?;
        let version = file
            .api_version
            .strip_prefix("controllermanager.config.k8s.io/");
        if file.kind != "LeaderMigrationConfiguration"
            || !matches!(version, Some("v1alpha1" | "v1beta1" | "v1"))
        {
            return Err(format!(
                "holds {} {}, but must hold controllermanager.config.k8s.io/v1 LeaderMigrationConfiguration",
                file.api_version, file.kind
            ));
        }
        if file.leader_name.is_empty() {
            return Err("leaderName must be set for LeaderMigrationConfiguration".into());
        }
        let resource_lock = file.resource_lock.unwrap_or_else(|| "leases".into());
        if resource_lock != "leases" {
            return Err(format!(
                "resourceLock is {resource_lock:?}, but must be \"leases\""
            ));
        }
        for (index, leader) in file.controller_leaders.iter().enumerate() {
            let missing = match leader {
                ControllerLeader { name, .. } if name.is_empty() => "name",
                ControllerLeader { component, .. } if component.is_empty() => "component",
                _ => continue,
            };
            return Err(format!("controllerLeaders[{index}].{missing} must be set"));
        }
        Ok(LeaderMigrationConfiguration {
            leader_name: file.leader_name,
            resource_lock,
            controller_leaders: Some(file.controller_leaders),
        })
    }

    /// Under which lock this manager runs the controller.
    pub fn lock_for(&self, controller: &str) -> Lock {
        let mut leaders = self.controller_leaders.iter().flatten();
        match leaders.find(|leader| leader.name == controller) {
            None => Lock::Main,
            Some(leader) if leader.component == COMPONENT || leader.component == "*" => {
                Lock::Migration
            }
            Some(_) => Lock::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str =
        "apiVersion: controllermanager.config.k8s.io/v1\nkind: LeaderMigrationConfiguration\n";

    fn check_error(text: &str, expected: &str) {
        let error = LeaderMigrationConfiguration::parse(text).expect_err("must be refused");
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn splits_controllers_by_owner() {
        let text = format!(
            "{HEAD}leaderName: m\ncontrollerLeaders:\n- {{name: a, component: '*'}}\n- {{name: b, component: kube-controller-manager}}\n- {{name: c, component: cloud-controller-manager}}\n"
        );
        let config = LeaderMigrationConfiguration::parse(&text).unwrap();
        let locks = ["a", "b", "c", "d"].map(|name| config.lock_for(name));
        assert_eq!(
            locks,
            [Lock::Migration, Lock::Migration, Lock::None, Lock::Main]
        );
        assert_eq!(config.resource_lock, "leases");
    }

    #[test]
    fn refuses_what_it_cannot_use() {
        check_error("", "expected a LeaderMigrationConfiguration, not nothing");
        check_error("- a", "expected a LeaderMigrationConfiguration, not a list");
        check_error(
            &format!("{HEAD}leaderNam: m\n"),
            "unknown field `leaderNam`",
        );
        check_error(HEAD, "leaderName must be set");
        check_error(
            &format!("{HEAD}leaderName: m\nresourceLock: configmaps\n"),
            "must be \"leases\"",
        );
        check_error(
            &format!("{HEAD}leaderName: m\ncontrollerLeaders: [{{name: a}}]\n"),
            "controllerLeaders[0].component",
        );
        check_error("apiVersion: v1\nkind: Pod\n", "holds v1 Pod");
    }
}
