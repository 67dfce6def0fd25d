//! One palette for everything that is said on a terminal. Pure.

/// What a piece of text is; the terminal's own theme says how it looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// It is as it should be.
    Good,
    /// It is on its way, or needs a look.
    Warning,
    /// It is stuck or broken.
    Bad,
    /// A name for what follows.
    Heading,
    /// What most people do not need most of the time.
    Faint,
}

impl Tone {
    /// The terminal's number for it.
    const fn code(self) -> &'static str {
        match self {
            Tone::Good => "32",
            Tone::Warning => "33",
            Tone::Bad => "31",
            Tone::Heading => "1",
            Tone::Faint => "2",
        }
    }

    /// The text in this tone, or as it is where there is no colour.
    pub fn paint(self, text: &str, colour: bool) -> String {
        match colour && !text.is_empty() {
            true => format!("\u{1b}[{}m{text}\u{1b}[0m", self.code()),
            false => text.to_owned(),
        }
    }
}
