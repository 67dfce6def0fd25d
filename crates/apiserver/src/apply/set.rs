//! Sets of fields, in the shape of FieldsV1.

use serde_json::{Map, Value};

/// A set of paths. A path element is spelled as in FieldsV1: `f:name`, `k:{...}`, `v:...`, `i:0`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct FieldSet {
    /// In the order of their elements. A list, because sets are small and every write makes a few.
    children: Vec<(String, Node)>,
}

/// More children than all but lists of clients have.
const MANY: usize = 64;

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Node {
    /// The path that ends here is in the set.
    pub(super) member: bool,
    pub(super) below: FieldSet,
}

impl Node {
    /// Neither it nor anything below it is in the set.
    pub(super) fn is_empty(&self) -> bool {
        !self.member && self.below.is_empty()
    }
}

impl FieldSet {
    pub(super) fn is_empty(&self) -> bool {
        self.children.is_empty()
    }

    fn find(&self, element: &str) -> Result<usize, usize> {
        self.children
            .binary_search_by(|(candidate, _)| candidate.as_str().cmp(element))
    }

    fn get(&self, element: &str) -> Option<&Node> {
        let index = self.find(element).ok()?;
        Some(&self.children[index].1)
    }

    pub(super) fn insert(&mut self, path: &[String]) {
        let Some((first, rest)) = path.split_first() else {
            return;
        };
        let mut node = Node {
            member: rest.is_empty(),
            ..Node::default()
        };
        node.below.insert(rest);
        self.put(first.clone(), node);
    }

    /// Adds what is below an element; nothing for an empty node.
    pub(super) fn put(&mut self, element: String, node: Node) {
        if node.is_empty() {
            return;
        }
        match self.find(&element) {
            Ok(index) => self.children[index].1.union(&node),
            Err(index) => self.children.insert(index, (element, node)),
        }
    }

    /// Whether the path or anything below it is in the set.
    pub(super) fn contains_at_or_below(&self, path: &[String]) -> bool {
        self.node(path).is_some_and(|node| !node.is_empty())
    }

    fn node(&self, path: &[String]) -> Option<&Node> {
        let (first, rest) = path.split_first()?;
        let node = self.get(first)?;
        if rest.is_empty() {
            Some(node)
        } else {
            node.below.node(rest)
        }
    }

    pub(super) fn union(&mut self, other: &FieldSet) {
        if other.children.len() > MANY {
            return self.union_many(other);
        }
        for (element, node) in &other.children {
            match self.find(element) {
                Ok(index) => self.children[index].1.union(node),
                Err(index) => self.children.insert(index, (element.clone(), node.clone())),
            }
        }
    }

    /// The same for sets so large that every insertion in the middle would tell.
    fn union_many(&mut self, other: &FieldSet) {
        let mut theirs = other.children.iter().peekable();
        let mut all = Vec::with_capacity(self.children.len() + other.children.len());
        for (element, mut node) in std::mem::take(&mut self.children) {
            while let Some(before) = theirs.next_if(|(other, _)| *other < element) {
                all.push(before.clone());
            }
            if let Some((_, same)) = theirs.next_if(|(other, _)| *other == element) {
                node.union(same);
            }
            all.push((element, node));
        }
        all.extend(theirs.cloned());
        self.children = all;
    }

    /// All that is in any of the sets. One after the other, thousands of them would be searched and moved for each.
    pub(super) fn union_of<'a>(sets: impl IntoIterator<Item = &'a FieldSet>) -> FieldSet {
        let children = sets.into_iter().flat_map(|set| &set.children);
        FieldSet::united(children.collect())
    }

    fn united(mut children: Vec<&(String, Node)>) -> FieldSet {
        children.sort_by(|(one, _), (two, _)| one.cmp(two));
        let same = children.chunk_by(|(one, _), (two, _)| one == two);
        let united = same.map(|nodes| {
            let node = match nodes {
                [(_, node)] => node.clone(),
                _ => Node {
                    member: nodes.iter().any(|(_, node)| node.member),
                    below: {
                        let below = nodes.iter().flat_map(|(_, node)| &node.below.children);
                        FieldSet::united(below.collect())
                    },
                },
            };
            (nodes[0].0.clone(), node)
        });
        FieldSet {
            children: united.collect(),
        }
    }

    pub(super) fn intersection(&self, other: &FieldSet) -> FieldSet {
        self.combine(other, |mine, theirs| mine && theirs)
    }

    pub(super) fn difference(&self, other: &FieldSet) -> FieldSet {
        self.combine(other, |mine, theirs| mine && !theirs)
    }

    /// Keeps what `keep` says of (in this set, in the other), for every path of this set.
    fn combine(&self, other: &FieldSet, keep: fn(bool, bool) -> bool) -> FieldSet {
        let nothing = Node::default();
        let mut children = Vec::new();
        for (element, mine) in &self.children {
            let theirs = other.get(element).unwrap_or(&nothing);
            let node = Node {
                member: keep(mine.member, theirs.member),
                below: mine.below.combine(&theirs.below, keep),
            };
            if !node.is_empty() {
                children.push((element.clone(), node));
            }
        }
        FieldSet { children }
    }

    /// Drops a path and everything below it.
    pub(super) fn remove_tree(&mut self, path: &[&str]) {
        let Some((first, rest)) = path.split_first() else {
            return;
        };
        let Ok(index) = self.find(first) else {
            return;
        };
        let node = &mut self.children[index].1;
        node.below.remove_tree(rest);
        if rest.is_empty() || node.is_empty() {
            self.children.remove(index);
        }
    }

    /// Drops one path but not what is below it.
    pub(super) fn remove(&mut self, path: &str) {
        if let Ok(index) = self.find(path) {
            let node = &mut self.children[index].1;
            node.member = false;
            if node.is_empty() {
                self.children.remove(index);
            }
        }
    }

    /// Every path in the set, parents before children.
    pub(super) fn paths(&self) -> Vec<Vec<String>> {
        let mut paths = Vec::new();
        self.collect(&mut Vec::new(), &mut paths);
        paths
    }

    fn collect(&self, prefix: &mut Vec<String>, paths: &mut Vec<Vec<String>>) {
        for (element, node) in &self.children {
            prefix.push(element.clone());
            if node.member {
                paths.push(prefix.clone());
            }
            node.below.collect(prefix, paths);
            prefix.pop();
        }
    }

    /// Whether a path is in both sets.
    pub(super) fn overlaps(&self, other: &FieldSet) -> bool {
        self.children.iter().any(|(element, mine)| {
            other.get(element).is_some_and(|theirs| {
                (mine.member && theirs.member) || mine.below.overlaps(&theirs.below)
            })
        })
    }

    /// In the order of their elements.
    pub(super) fn children(&self) -> &[(String, Node)] {
        &self.children
    }

    /// The node of an element; nothing is in an empty one.
    pub(super) fn child(&self, element: &str) -> Option<&Node> {
        self.get(element)
    }

    pub(super) fn from_value(value: &Value) -> FieldSet {
        let mut set = FieldSet::default();
        for (element, below) in value
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(element, _)| *element != ".")
        {
            let children = FieldSet::from_value(below);
            let node = Node {
                member: children.is_empty() || below.get(".").is_some(),
                below: children,
            };
            set.put(element.clone(), node);
        }
        set
    }
}

impl Node {
    fn union(&mut self, other: &Node) {
        self.member |= other.member;
        self.below.union(&other.below);
    }
}

/// `.spec.containers[name="c"].image`: how messages spell a path.
pub(super) fn path_text(path: &[String]) -> String {
    let mut text = String::new();
    for element in path {
        match element.split_once(':') {
            Some(("f", name)) => text.push_str(&format!(".{name}")),
            Some(("k", keys)) => {
                let keys: Map<String, Value> = serde_json::from_str(keys).unwrap_or_default();
                let parts: Vec<String> = keys
                    .iter()
                    .map(|(key, value)| format!("{key}={value}"))
                    .collect();
                text.push_str(&format!("[{}]", parts.join(",")));
            }
            Some(("v", value)) => text.push_str(&format!("[={value}]")),
            _ => text.push_str(&format!("[{element}]")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn paths_are_spelled_as_messages_have_them() {
        let set = FieldSet::from_value(
            &json!({"f:metadata": {"f:labels": {".": {}, "f:a": {}}}, "f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {".": {}, "f:image": {}}}}}),
        );
        let texts: Vec<String> = set.paths().iter().map(|path| path_text(path)).collect();
        assert_eq!(
            texts,
            [
                ".metadata.labels",
                ".metadata.labels.a",
                ".spec.containers[name=\"c\"]",
                ".spec.containers[name=\"c\"].image"
            ]
        );
    }

    #[test]
    fn large_sets_unite_as_small_ones_do() {
        let set = |numbers: &mut dyn Iterator<Item = usize>, below: &str| {
            let members = numbers.map(|n| (format!("f:{n:04}"), json!({below: {}})));
            FieldSet::from_value(&Value::Object(members.collect()))
        };
        let mut large = set(&mut (0..300).step_by(2), "f:a");
        let mut by_one = large.clone();
        let other = set(&mut (0..300).step_by(3), "f:b");
        assert!(other.children.len() > MANY);
        for (element, node) in &other.children {
            by_one.put(element.clone(), node.clone());
        }
        assert_eq!(FieldSet::union_of([&large, &other]), by_one);
        assert_eq!(FieldSet::union_of([]), FieldSet::default());
        large.union(&other);
        assert_eq!(large, by_one);
        assert!(large.children.is_sorted_by(|one, two| one.0 < two.0));
    }

    #[test]
    fn algebra() {
        let a = FieldSet::from_value(&json!({"f:x": {"f:y": {}, "f:z": {}}}));
        let b = FieldSet::from_value(&json!({"f:x": {"f:y": {}}, "f:w": {}}));
        assert_eq!(
            a.intersection(&b),
            FieldSet::from_value(&json!({"f:x": {"f:y": {}}}))
        );
        let rest = a.difference(&b);
        assert_eq!(rest, FieldSet::from_value(&json!({"f:x": {"f:z": {}}})));
        assert!(a.overlaps(&b) && !rest.overlaps(&b));
    }
}
