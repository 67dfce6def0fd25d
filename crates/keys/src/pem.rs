//! Texts in PEM, read as Go reads them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// One block: what stands between its markers.
pub struct Block<'a> {
    pub label: &'a str,
    pub has_headers: bool,
    pub der: Vec<u8>,
}

/// All blocks of a text in PEM, with what a reader of certificates passes over: types and headers. What stands between
/// blocks, and what only looks like one, is no block.
pub fn blocks(text: &str) -> Vec<Block<'_>> {
    let marked = |line: &'_ str, mark: &str| -> Option<(usize, usize)> {
        let label = line.strip_prefix(mark)?.trim_end().strip_suffix("-----")?;
        Some((mark.len(), mark.len() + label.len()))
    };
    let mut blocks = Vec::new();
    let mut lines = text.lines();
    let mut begun: Option<(&str, Vec<&str>)> = None;
    for line in &mut lines {
        if let Some((from, to)) = marked(line, "-----BEGIN ") {
            begun = Some((&line[from..to], Vec::new()));
        } else if let Some((from, to)) = marked(line, "-----END ") {
            let ended = begun.take().filter(|(label, _)| *label == &line[from..to]);
            blocks.extend(ended.and_then(|(label, body)| block(label, &body)));
        } else if let Some((_, body)) = &mut begun {
            body.push(line);
        }
    }
    blocks
}

fn block<'a>(label: &'a str, body: &[&str]) -> Option<Block<'a>> {
    let headers = body.iter().take_while(|line| line.contains(':')).count();
    let encoded: String = body[headers..]
        .iter()
        .flat_map(|line| line.split_whitespace())
        .collect();
    Some(Block {
        label,
        has_headers: headers > 0,
        der: STANDARD.decode(encoded).ok()?,
    })
}
