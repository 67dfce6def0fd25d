//! YAML as kubectl and API servers read it: by the rules of YAML 1.1, into JSON.
//!
//! `yes` is true, `0755` is 493, `<<` merges; what is in quotes is text. Names that stand twice stay twice, for those
//! who complain about them.
// UPSTREAM: sigs.k8s.io/yaml on go.yaml.in/yaml/v2.

mod scalar;

use crate::collections::HashMap;
use std::borrow::Cow;

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span, Tag};

use scalar::Scalar;

/// One document of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// Where it begins, from 1.
    pub line: usize,
    pub json: String,
    /// The first name that stands twice in one map, and where it does so.
    pub twice: Option<(usize, String)>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct Error {
    pub line: usize,
    pub problem: String,
}

/// Parsers of JSON give up at 128.
const DEEPEST: usize = 127;

/// How much may come out of aliases: a few lines could else fill the memory.
// UPSTREAM: about as many before "excessive aliasing".
const MOST_BY_ALIASES: usize = 400_000;

/// All documents of a stream; an empty one is `null`.
pub fn documents(text: &str) -> Result<Vec<Document>, Error> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = Reader::default();
    for event in Parser::new_from_str(text) {
        let (event, place) = event?;
        let line = place.start.line();
        reader
            .take(event, &place)
            .map_err(|problem| Error { line, problem })?;
    }
    Ok(reader.documents)
}

#[derive(Default)]
struct Reader {
    documents: Vec<Document>,
    /// Collections that are not closed yet, the outermost first, each with the anchor that names it.
    open: Vec<(Collection, usize)>,
    anchors: HashMap<usize, Node>,
    by_aliases: usize,
    /// Where the document begins, once something of it was seen.
    line: Option<usize>,
    twice: Option<(usize, String)>,
}

#[derive(Clone)]
enum Node {
    Scalar(Scalar),
    List(Vec<Node>),
    Map(Vec<Member>),
}

#[derive(Clone)]
struct Member {
    name: String,
    value: Node,
    /// It came by `<<`: what the map itself says later takes its place.
    is_merged: bool,
}

enum Collection {
    List(Vec<Node>),
    Map {
        members: Members,
        /// The name whose value comes next.
        name: Option<Name>,
    },
}

#[derive(Default)]
struct Members {
    all: Vec<Member>,
    places: HashMap<String, usize>,
}

enum Name {
    Member(String),
    Merge,
}

impl Reader {
    fn take(&mut self, event: Event<'_>, place: &Span) -> Result<(), String> {
        let opens = |is_map| match is_map {
            true => Collection::Map {
                members: Members::default(),
                name: None,
            },
            false => Collection::List(Vec::new()),
        };
        match event {
            Event::Nothing | Event::StreamStart | Event::StreamEnd => {}
            Event::DocumentStart(_) => self.line = None,
            Event::DocumentEnd => {
                self.anchors.clear();
                self.by_aliases = 0;
            }
            Event::Scalar(text, style, anchor, tag) => {
                self.begin(place);
                if self.expects_name() && style == ScalarStyle::Plain && text == "<<" {
                    return self.name_next(Name::Merge);
                }
                let node = Node::Scalar(scalar(text, style, tag.as_deref())?);
                self.add(node, anchor, place)?;
            }
            Event::SequenceStart(anchor, _) => self.open(opens(false), anchor, place)?,
            Event::MappingStart(anchor, _) => self.open(opens(true), anchor, place)?,
            Event::SequenceEnd | Event::MappingEnd => {
                let Some((collection, anchor)) = self.open.pop() else {
                    return Ok(());
                };
                let node = match collection {
                    Collection::List(items) => Node::List(items),
                    Collection::Map { members, .. } => Node::Map(members.all),
                };
                self.add(node, anchor, place)?;
            }
            Event::Alias(anchor) => {
                self.begin(place);
                let node = self.anchors.get(&anchor);
                let node = node.ok_or("an anchor's value contains itself")?.clone();
                self.by_aliases += node.size();
                if self.by_aliases > MOST_BY_ALIASES {
                    return Err("document contains excessive aliasing".to_owned());
                }
                self.add(node, 0, place)?;
            }
        }
        Ok(())
    }

    fn begin(&mut self, place: &Span) {
        self.line.get_or_insert(place.start.line());
    }

    fn open(&mut self, collection: Collection, anchor: usize, place: &Span) -> Result<(), String> {
        self.begin(place);
        if self.expects_name() {
            return Err("a name must not be a list or a map".to_owned());
        }
        if self.open.len() == DEEPEST {
            return Err("nested too deeply".to_owned());
        }
        self.open.push((collection, anchor));
        Ok(())
    }

    fn expects_name(&self) -> bool {
        matches!(
            self.open.last(),
            Some((Collection::Map { name: None, .. }, _))
        )
    }

    fn name_next(&mut self, next: Name) -> Result<(), String> {
        if let Some((Collection::Map { name, .. }, _)) = self.open.last_mut() {
            *name = Some(next);
        }
        Ok(())
    }

    /// Puts a node that is complete where it belongs.
    fn add(&mut self, node: Node, anchor: usize, place: &Span) -> Result<(), String> {
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        if self.expects_name() {
            let Node::Scalar(scalar) = node else {
                return Err("a name must not be a list or a map".to_owned());
            };
            return self.name_next(Name::Member(scalar.into_name()?));
        }
        match self.open.last_mut() {
            None => {
                let mut json = String::new();
                node.print(&mut json);
                let line = self.line.take().unwrap_or(place.start.line());
                let twice = self.twice.take();
                self.documents.push(Document { line, json, twice });
            }
            Some((Collection::List(items), _)) => items.push(node),
            Some((Collection::Map { members, name }, _)) => match name.take() {
                Some(Name::Merge) => members.merge(node)?,
                Some(Name::Member(name)) => {
                    if members.is_twice(&name) {
                        let line = place.start.line();
                        self.twice.get_or_insert_with(|| (line, name.clone()));
                    }
                    members.add(name, node);
                }
                None => {}
            },
        }
        Ok(())
    }
}

impl Members {
    /// Whether a name that comes now was there before, by the map itself.
    fn is_twice(&self, name: &str) -> bool {
        let place = self.places.get(name);
        place.is_some_and(|place| !self.all[*place].is_merged)
    }

    fn add(&mut self, name: String, value: Node) {
        let member = Member {
            name,
            value,
            is_merged: false,
        };
        match self.places.get(&member.name) {
            Some(place) if self.all[*place].is_merged => self.all[*place] = member,
            Some(_) => self.all.push(member),
            None => self.append(member),
        }
    }

    fn append(&mut self, member: Member) {
        self.places.insert(member.name.clone(), self.all.len());
        self.all.push(member);
    }

    /// Adds the members of a map, or of the maps of a list, of which earlier ones count more.
    fn merge(&mut self, node: Node) -> Result<(), String> {
        let maps = match node {
            Node::List(items) => items,
            node => vec![node],
        };
        for map in maps.into_iter().rev() {
            let Node::Map(merged) = map else {
                return Err("map merge requires map or sequence of maps as the value".to_owned());
            };
            for member in merged {
                let member = Member {
                    is_merged: true,
                    ..member
                };
                match self.places.get(&member.name) {
                    // UPSTREAM: it also replaces what stands before it.
                    Some(place) => self.all[*place] = member,
                    None => self.append(member),
                }
            }
        }
        Ok(())
    }
}

impl Node {
    /// How many nodes it is made of.
    fn size(&self) -> usize {
        1 + match self {
            Node::Scalar(_) => 0,
            Node::List(items) => items.iter().map(Node::size).sum(),
            Node::Map(members) => members.iter().map(|member| member.value.size()).sum(),
        }
    }

    fn print(&self, json: &mut String) {
        match self {
            Node::Scalar(scalar) => json.push_str(&scalar.json()),
            Node::List(items) => {
                json.push('[');
                for (index, item) in items.iter().enumerate() {
                    json.push_str(if index == 0 { "" } else { "," });
                    item.print(json);
                }
                json.push(']');
            }
            Node::Map(members) => {
                json.push('{');
                for (index, member) in members.iter().enumerate() {
                    json.push_str(if index == 0 { "" } else { "," });
                    json.push_str(&scalar::quoted(&member.name));
                    json.push(':');
                    member.value.print(json);
                }
                json.push('}');
            }
        }
    }
}

fn scalar(text: Cow<'_, str>, style: ScalarStyle, tag: Option<&Tag>) -> Result<Scalar, String> {
    let core = tag.filter(|tag| tag.is_yaml_core_schema());
    match (core.map(|tag| tag.suffix.as_str()), tag) {
        (None, None) if style == ScalarStyle::Plain => Scalar::resolve(&text),
        (None, _) | (Some("str"), _) => Ok(Scalar::Text(text.into_owned())),
        (Some(wanted), _) => Scalar::resolve_as(wanted, &text),
    }
}

impl From<ScanError> for Error {
    fn from(error: ScanError) -> Error {
        Error {
            line: error.marker().line(),
            problem: error.info().to_owned(),
        }
    }
}

#[cfg(test)]
mod tests;
