//! The graph as a picture: Graphviz text as upstream's debug endpoint writes it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use api::Uid;

use super::graph::{Graph, Node};

impl Graph {
    /// The whole graph, or what hangs together with the given objects. Objects without owners and
    /// dependents are left out.
    pub fn to_dot(&self, uids: &[Uid]) -> String {
        let nodes = match uids {
            [] => self.nodes(),
            some => self.connected(some),
        };
        let (vertices, edges) = self.vertices_and_edges(&nodes);
        let mut text = String::from("strict digraph full {\n");
        if !vertices.is_empty() {
            text.push_str("  // Node definitions.\n");
        }
        vertices.values().for_each(|vertex| vertex.write(&mut text));
        if !edges.is_empty() {
            text.push_str("  // Edge definitions.\n");
        }
        for (from, to) in edges {
            let _ = writeln!(text, "  {} -> {};", quote(&from), quote(&to));
        }
        text.push_str("}\n");
        text
    }

    fn connected(&self, uids: &[Uid]) -> Vec<&Node> {
        let mut to_look_at: Vec<Uid> = uids.to_vec();
        let mut found: BTreeMap<String, &Node> = BTreeMap::new();
        while let Some(uid) = to_look_at.pop() {
            let Some(node) = self.find(&uid).map(|slot| self.node(slot)) else {
                continue;
            };
            if found.insert(uid.to_string(), node).is_some() {
                continue;
            }
            let owners = node.owners.iter().map(|owner| owner.uid.clone());
            let dependents = node
                .dependents
                .iter()
                .map(|slot| self.node(*slot).uid.clone());
            to_look_at.extend(owners.chain(dependents));
        }
        found.into_values().collect()
    }

    fn vertices_and_edges(
        &self,
        nodes: &[&Node],
    ) -> (BTreeMap<String, Vertex>, BTreeSet<(String, String)>) {
        let mut vertices = BTreeMap::new();
        let mut edges = BTreeSet::new();
        for node in nodes {
            if !node.dependents.is_empty() || !node.owners.is_empty() {
                vertices.insert(node.uid.to_string(), self.vertex(node));
            }
        }
        for node in nodes {
            for owner in node.owners.iter() {
                let uid = owner.uid.to_string();
                vertices.entry(uid.clone()).or_insert_with(|| Vertex {
                    uid: uid.clone(),
                    api_version: owner.api_version.to_string(),
                    kind: owner.kind.to_string(),
                    name: owner.name.to_string(),
                    missing: true,
                    ..Vertex::default()
                });
                edges.insert((node.uid.to_string(), uid));
            }
        }
        (vertices, edges)
    }

    fn vertex(&self, node: &Node) -> Vertex {
        let identity = self.identity(node);
        Vertex {
            uid: node.uid.to_string(),
            api_version: identity.api_version.to_string(),
            kind: identity.kind.to_string(),
            namespace: node.namespace.to_string(),
            name: node.name.to_string(),
            missing: false,
            being_deleted: node.being_deleted,
            deleting_dependents: node.deleting_dependents,
            is_virtual: node.is_virtual,
        }
    }
}

#[derive(Default)]
struct Vertex {
    uid: String,
    api_version: String,
    kind: String,
    namespace: String,
    name: String,
    missing: bool,
    being_deleted: bool,
    deleting_dependents: bool,
    is_virtual: bool,
}

impl Vertex {
    fn write(&self, text: &mut String) {
        let (group, version) = self
            .api_version
            .split_once('/')
            .unwrap_or(("", &self.api_version));
        let mut label = format!(
            "uid={}\nnamespace={}\n{}.{version}",
            self.uid, self.namespace, self.kind
        );
        if !group.is_empty() {
            let _ = write!(label, ".{group}");
        }
        let _ = writeln!(label, "/{}", self.name);
        let states: Vec<&str> = [
            (self.being_deleted, "beingDeleted"),
            (self.deleting_dependents, "deletingDependents"),
            (self.is_virtual, "virtual"),
            (self.missing, "missingFromGraph"),
        ]
        .iter()
        .filter(|(holds, _)| *holds)
        .map(|(_, name)| *name)
        .collect();
        if !states.is_empty() {
            let _ = writeln!(label, "{}", states.join(","));
        }
        let _ = writeln!(text, "  {} [", quote(&self.uid));
        let flags = [
            ("missing", self.missing),
            ("beingDeleted", self.being_deleted),
            ("deletingDependents", self.deleting_dependents),
            ("virtual", self.is_virtual),
        ]
        .map(|(name, holds)| (name, holds.to_string()));
        let attributes = [
            ("label", label.as_str()),
            ("group", group),
            ("version", version),
            ("kind", &self.kind),
            ("namespace", &self.namespace),
            ("name", &self.name),
            ("uid", &self.uid),
        ];
        let flags = flags.iter().map(|(name, value)| (*name, value.as_str()));
        for (name, value) in attributes.into_iter().chain(flags) {
            let _ = writeln!(text, "    {name}={}", quote(value));
        }
        text.push_str("  ];\n");
    }
}

/// As Go's `%q` does for printable text.
fn quote(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            '\r' => quoted.push_str("\\r"),
            control if control.is_control() => {
                let _ = write!(quoted, "\\x{:02x}", u32::from(control));
            }
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}
