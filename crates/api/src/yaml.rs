//! YAML as kubectl and API servers read and write it: by the rules of YAML 1.1, from and to JSON.
//!
//! `yes` is true, `0755` is 493, `<<` merges; what is in quotes is text. Names that stand twice stay twice, for those
//! who complain about them.
// UPSTREAM: sigs.k8s.io/yaml on go.yaml.in/yaml/v2.

mod scalar;
mod typed;
mod write;

use crate::collections::HashMap;
use crate::syntax::go_quote;
use std::borrow::Cow;
use std::rc::Rc;

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span, Tag};

use scalar::Scalar;
pub use typed::{from_str, line_of};
pub use write::to_string;

/// One document of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// Where it begins, from 1.
    pub line: usize,
    pub json: String,
    /// The names that stand twice in one map, and where they do so again.
    pub twice: Vec<(usize, String)>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {}{problem}", if field.is_empty() { String::new() } else { format!("{field}: ") })]
pub struct Error {
    pub line: usize,
    /// Where types do not fit, such as `nodes[1].name`; empty for the document as a whole.
    pub field: String,
    pub problem: String,
}

impl Error {
    /// About the text itself.
    fn at(line: usize, problem: String) -> Error {
        Error {
            line,
            field: String::new(),
            problem,
        }
    }
}

impl Document {
    /// What upstream's strict reader says of the names that stand twice.
    pub fn repetitions(&self) -> Option<String> {
        let (false, names) = (self.twice.is_empty(), &self.twice) else {
            return None;
        };
        let lines = names.iter().map(|(line, name)| {
            format!("\n  line {line}: key {} already set in map", go_quote(name))
        });
        Some(format!(
            "yaml: unmarshal errors:{}",
            lines.collect::<String>()
        ))
    }
}

/// Parsers of JSON give up at 128.
const DEEPEST: usize = 127;
const TOO_DEEP: &str = "nested too deeply";

/// How many bytes of JSON may come out of the aliases of one document, of which a few lines could else fill the
/// memory: as many as an API server takes in one request.
const MAX_ALIAS_BYTES: usize = 3 * 1024 * 1024;

/// All documents of a stream; an empty one is `null`.
pub fn documents(text: &str) -> Result<Vec<Document>, Error> {
    read(text, usize::MAX)
}

/// The first document of a stream; what comes after it is not looked at.
pub fn first_document(text: &str) -> Result<Option<Document>, Error> {
    read(text, 1).map(|documents| documents.into_iter().next())
}

fn read(text: &str, most: usize) -> Result<Vec<Document>, Error> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = Reader::default();
    for event in Parser::new_from_str(text) {
        let (event, place) = event?;
        let line = place.start.line();
        reader
            .take(event, &place)
            .map_err(|problem| Error::at(line, problem))?;
        if reader.documents.len() >= most {
            break;
        }
    }
    Ok(reader.documents)
}

#[derive(Default)]
struct Reader {
    documents: Vec<Document>,
    /// Collections that are not closed yet, the outermost first, each with the anchor that names it and the line where
    /// it begins.
    open: Vec<(Collection, usize, usize)>,
    anchors: HashMap<usize, Node>,
    /// How many bytes of JSON the aliases of this document stand for.
    alias_bytes: usize,
    /// Where the document begins, once something of it was seen.
    line: Option<usize>,
    twice: Vec<(usize, String)>,
}

/// A node that is complete. Aliases share it: copies would take memory long before the bytes are counted.
#[derive(Clone)]
struct Node {
    content: Content,
    /// The length of its JSON.
    bytes: usize,
    /// How many collections lie in each other, itself included.
    depth: usize,
}

#[derive(Clone)]
enum Content {
    Scalar(Rc<Scalar>),
    List(Rc<Vec<Node>>),
    Map(Rc<Vec<Member>>),
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
                self.alias_bytes = 0;
            }
            Event::Scalar(text, style, anchor, tag) => {
                self.begin(place);
                if self.expects_name() && style == ScalarStyle::Plain && text == "<<" {
                    return self.name_next(Name::Merge);
                }
                let node = Node::scalar(scalar(text, style, tag.as_deref())?);
                self.add(node, anchor, place.start.line())?;
            }
            Event::SequenceStart(anchor, _) => self.open(opens(false), anchor, place)?,
            Event::MappingStart(anchor, _) => self.open(opens(true), anchor, place)?,
            Event::SequenceEnd | Event::MappingEnd => {
                let Some((collection, anchor, line)) = self.open.pop() else {
                    return Ok(());
                };
                let node = match collection {
                    Collection::List(items) => Node::list(items),
                    Collection::Map { members, .. } => Node::map(members.all),
                };
                self.add(node, anchor, line)?;
            }
            Event::Alias(anchor) => {
                self.begin(place);
                let node = self.anchors.get(&anchor);
                let node = node.ok_or("an anchor's value contains itself")?.clone();
                self.alias_bytes = self.alias_bytes.saturating_add(node.bytes);
                if self.alias_bytes > MAX_ALIAS_BYTES {
                    return Err("document contains excessive aliasing".to_owned());
                }
                if self.open.len() + node.depth > DEEPEST {
                    return Err(TOO_DEEP.to_owned());
                }
                self.add(node, 0, place.start.line())?;
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
            return Err(TOO_DEEP.to_owned());
        }
        self.open.push((collection, anchor, place.start.line()));
        Ok(())
    }

    fn expects_name(&self) -> bool {
        matches!(
            self.open.last(),
            Some((Collection::Map { name: None, .. }, ..))
        )
    }

    fn name_next(&mut self, next: Name) -> Result<(), String> {
        if let Some((Collection::Map { name, .. }, ..)) = self.open.last_mut() {
            *name = Some(next);
        }
        Ok(())
    }

    /// Puts a node that is complete and begins on a line where it belongs.
    fn add(&mut self, node: Node, anchor: usize, line: usize) -> Result<(), String> {
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        if self.expects_name() {
            let Content::Scalar(scalar) = node.content else {
                return Err("a name must not be a list or a map".to_owned());
            };
            return self.name_next(Name::Member(Rc::unwrap_or_clone(scalar).into_name()?));
        }
        match self.open.last_mut() {
            None => {
                let mut json = String::new();
                node.print(&mut json);
                let line = self.line.take().unwrap_or(line);
                let twice = std::mem::take(&mut self.twice);
                self.documents.push(Document { line, json, twice });
            }
            Some((Collection::List(items), ..)) => items.push(node),
            Some((Collection::Map { members, name }, ..)) => match name.take() {
                Some(Name::Merge) => members.merge(node)?,
                Some(Name::Member(name)) => {
                    if members.is_twice(&name) {
                        self.twice.push((line, name.clone()));
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
        let maps = match &node.content {
            Content::List(items) => items.as_slice(),
            _ => std::slice::from_ref(&node),
        };
        for map in maps.iter().rev() {
            let Content::Map(merged) = &map.content else {
                return Err("map merge requires map or sequence of maps as the value".to_owned());
            };
            for member in merged.iter() {
                let member = Member {
                    is_merged: true,
                    ..member.clone()
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
    fn scalar(scalar: Scalar) -> Node {
        Node {
            bytes: scalar.json().len(),
            depth: 0,
            content: Content::Scalar(Rc::new(scalar)),
        }
    }

    fn list(items: Vec<Node>) -> Node {
        // With what stands between them.
        let bytes = items.iter().map(|item| item.bytes + 1).sum::<usize>() + 2;
        let depth = items.iter().map(|item| item.depth).max().unwrap_or(0) + 1;
        Node {
            bytes,
            depth,
            content: Content::List(Rc::new(items)),
        }
    }

    fn map(members: Vec<Member>) -> Node {
        let sizes = members
            .iter()
            .map(|member| scalar::quoted(&member.name).len() + member.value.bytes + 2);
        let bytes = sizes.sum::<usize>() + 2;
        let depths = members.iter().map(|member| member.value.depth);
        let depth = depths.max().unwrap_or(0) + 1;
        Node {
            bytes,
            depth,
            content: Content::Map(Rc::new(members)),
        }
    }

    fn print(&self, json: &mut String) {
        match &self.content {
            Content::Scalar(scalar) => json.push_str(&scalar.json()),
            Content::List(items) => {
                json.push('[');
                for (index, item) in items.iter().enumerate() {
                    json.push_str(if index == 0 { "" } else { "," });
                    item.print(json);
                }
                json.push(']');
            }
            Content::Map(members) => {
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
        Error::at(error.marker().line(), error.info().to_owned())
    }
}

#[cfg(test)]
mod tests;
