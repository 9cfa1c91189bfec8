//! One Rust file as tidy sees it: tokens, the comment text of each line, and the paths that the code names.
//!
//! This is a lexer, not a parser. It knows strings, comments, lifetimes and braces, which is enough to tell code from
//! prose, test code from the rest, and to expand `use a::{b, c::d}`.

/// One token: an identifier or number, `::`, a string (with its opening quote and content), or one other character.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) text: String,
    /// Counted from 1.
    pub(crate) line: usize,
    /// The token belongs to an item that exists in test builds only.
    pub(crate) is_test: bool,
    /// Inline modules around the token, outermost first.
    pub(crate) inline: Vec<String>,
}

/// A path such as `crate::park::Waiter`, one per leaf of a `use` group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CodePath {
    pub(crate) segments: Vec<String>,
    /// The name after `as`, where there is one.
    pub(crate) alias: Option<String>,
    pub(crate) line: usize,
    pub(crate) is_test: bool,
    pub(crate) inline: Vec<String>,
}

/// `mod name;`: another file belongs to the house.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ModuleFile {
    pub(crate) name: String,
    /// The value of `#[path = ".."]`.
    pub(crate) path: Option<String>,
    pub(crate) is_test: bool,
    pub(crate) inline: Vec<String>,
}

/// A lexed file.
#[derive(Debug, Default)]
pub(crate) struct Source {
    pub(crate) tokens: Vec<Token>,
    /// Comment text by line, index 0 is line 1.
    pub(crate) comments: Vec<String>,
}

const ITEM_WORDS: &[&str] = &[
    "async",
    "const",
    "enum",
    "extern",
    "fn",
    "impl",
    "macro_rules",
    "mod",
    "static",
    "struct",
    "trait",
    "type",
    "union",
    "unsafe",
    "use",
];

impl Source {
    pub(crate) fn parse(text: &str) -> Self {
        let mut source = Self {
            tokens: Vec::new(),
            comments: vec![String::new(); text.lines().count() + 1],
        };
        source.lex(text);
        source.mark_inline_modules();
        source.mark_tests();
        source
    }

    fn lex(&mut self, text: &str) {
        let chars: Vec<char> = text.chars().collect();
        let at = |i: usize| chars.get(i).copied().unwrap_or('\0');
        let (mut i, mut line) = (0, 1);
        while i < chars.len() {
            let c = chars[i];
            if c == '\n' {
                line += 1;
                i += 1;
            } else if c.is_whitespace() {
                i += 1;
            } else if c == '/' && at(i + 1) == '/' {
                while i < chars.len() && chars[i] != '\n' {
                    self.comments[line - 1].push(chars[i]);
                    i += 1;
                }
            } else if c == '/' && at(i + 1) == '*' {
                let mut depth = 0;
                while i < chars.len() {
                    if chars[i] == '/' && at(i + 1) == '*' {
                        depth += 1;
                        i += 2;
                    } else if chars[i] == '*' && at(i + 1) == '/' {
                        depth -= 1;
                        i += 2;
                        if depth == 0 {
                            break;
                        }
                    } else {
                        if chars[i] == '\n' {
                            line += 1;
                        } else {
                            self.comments[line - 1].push(chars[i]);
                        }
                        i += 1;
                    }
                }
            } else if let Some(hashes) = raw_string_hashes(&chars, i) {
                let start_line = line;
                while at(i) != '"' {
                    i += 1;
                }
                let mut content = String::from('"');
                i += 1;
                let closes = |i: usize| at(i) == '"' && (1..=hashes).all(|k| at(i + k) == '#');
                while i < chars.len() && !closes(i) {
                    line += usize::from(chars[i] == '\n');
                    content.push(chars[i]);
                    i += 1;
                }
                i += 1 + hashes;
                self.push(content, start_line);
            } else if c == '"' {
                let start_line = line;
                let mut content = String::from('"');
                i += 1;
                while i < chars.len() && chars[i] != '"' {
                    if chars[i] == '\\' {
                        content.push(chars[i]);
                        i += 1;
                    }
                    line += usize::from(at(i) == '\n');
                    content.push(at(i));
                    i += 1;
                }
                i += 1;
                self.push(content, start_line);
            } else if c == '\'' {
                if at(i + 1) == '\\' {
                    i += 3;
                    while i < chars.len() && chars[i] != '\'' {
                        i += 1;
                    }
                    i += 1;
                } else if at(i + 2) == '\'' {
                    i += 3;
                } else {
                    i += 1;
                    while at(i).is_alphanumeric() || at(i) == '_' {
                        i += 1;
                    }
                }
            } else if c.is_alphanumeric() || c == '_' {
                let start = i;
                while at(i).is_alphanumeric() || at(i) == '_' {
                    i += 1;
                }
                let word: String = chars[start..i].iter().collect();
                // The prefix of b"..", c"..", b'..' belongs to the literal; so does r# of a raw identifier.
                let is_prefix = matches!(word.as_str(), "b" | "c") && matches!(at(i), '"' | '\'');
                let is_raw = word == "r" && at(i) == '#';
                if is_raw {
                    i += 1;
                }
                if !is_prefix && !is_raw {
                    self.push(word, line);
                }
            } else if c == ':' && at(i + 1) == ':' {
                self.push("::".into(), line);
                i += 2;
            } else {
                self.push(c.to_string(), line);
                i += 1;
            }
        }
    }

    fn push(&mut self, text: String, line: usize) {
        self.tokens.push(Token {
            text,
            line,
            is_test: false,
            inline: Vec::new(),
        });
    }

    /// The token's text, or nothing past the end.
    pub(crate) fn text(&self, i: usize) -> &str {
        self.tokens.get(i).map_or("", |t| t.text.as_str())
    }

    fn mark_inline_modules(&mut self) {
        let mut open: Vec<(String, usize)> = Vec::new();
        let mut depth = 0usize;
        for i in 0..self.tokens.len() {
            match self.text(i) {
                "{" => {
                    depth += 1;
                    if i >= 2 && self.text(i - 2) == "mod" && is_word(self.text(i - 1)) {
                        open.push((self.text(i - 1).to_owned(), depth));
                    }
                }
                "}" => {
                    if open.last().is_some_and(|(_, d)| *d == depth) {
                        open.pop();
                    }
                    depth = depth.saturating_sub(1);
                }
                _ => {}
            }
            self.tokens[i].inline = open.iter().map(|(name, _)| name.clone()).collect();
        }
    }

    fn mark_tests(&mut self) {
        let mut i = 0;
        while i < self.tokens.len() {
            if self.text(i) == "#" && self.text(i + 1) == "[" {
                let end = self.closing(i + 1);
                let words: Vec<&str> = (i + 2..end).map(|k| self.text(k)).collect();
                if is_test_attribute(&words) {
                    let stop = self.item_end(end + 1);
                    for token in &mut self.tokens[i..stop] {
                        token.is_test = true;
                    }
                    i = stop;
                    continue;
                }
                i = end;
            }
            i += 1;
        }
    }

    /// Index of the bracket that closes the one at `open` (or the end of the file).
    pub(crate) fn closing(&self, open: usize) -> usize {
        let mut depth = 0usize;
        for i in open..self.tokens.len() {
            match self.text(i) {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => {
                    depth -= 1;
                    if depth == 0 {
                        return i;
                    }
                }
                _ => {}
            }
        }
        self.tokens.len().saturating_sub(1)
    }

    /// One past the last token of the item, field, arm or statement that starts at `start`, its attributes included.
    fn item_end(&self, start: usize) -> usize {
        let mut i = start;
        while self.text(i) == "#" {
            i = self.closing(i + 1) + 1;
        }
        let mut word = i;
        if self.text(word) == "pub" {
            word += 1;
            if self.text(word) == "(" {
                word = self.closing(word) + 1;
            }
        }
        let is_item = ITEM_WORDS.contains(&self.text(word));
        while i < self.tokens.len() {
            match self.text(i) {
                ";" => return i + 1,
                "," if !is_item => return i + 1,
                "{" => return self.closing(i) + 1,
                "(" | "[" => i = self.closing(i),
                ")" | "]" | "}" => return i,
                _ => {}
            }
            i += 1;
        }
        self.tokens.len()
    }

    /// Every path in the code, `use` groups expanded. A bare word is a path of one segment only inside `use`.
    pub(crate) fn paths(&self) -> Vec<CodePath> {
        let mut found = Vec::new();
        let mut i = 0;
        while i < self.tokens.len() {
            let is_use = self.text(i) == "use";
            let start = i + usize::from(is_use);
            let starts_path = is_word(self.text(start))
                && (is_use || self.text(start + 1) == "::")
                && !self.continues_path(start);
            if starts_path || (is_use && matches!(self.text(start), "::" | "{")) {
                i = self.path_tree(start, &[], &mut found).max(i + 1);
            } else {
                i += 1;
            }
        }
        found
    }

    fn continues_path(&self, i: usize) -> bool {
        let after_separator = i > 0 && self.text(i - 1) == "::";
        after_separator
            && i > 1
            && (is_word(self.text(i - 2)) || matches!(self.text(i - 2), ">" | "}" | "]"))
    }

    /// Reads one path or group at `i`; returns the index after it.
    fn path_tree(&self, mut i: usize, prefix: &[String], found: &mut Vec<CodePath>) -> usize {
        let mut segments = prefix.to_vec();
        loop {
            match self.text(i) {
                "::" => i += 1,
                "{" => {
                    let end = self.closing(i);
                    i += 1;
                    while i < end {
                        let next = self.path_tree(i, &segments, found);
                        i = next.max(i + 1);
                        if self.text(i) == "," {
                            i += 1;
                        }
                    }
                    return end + 1;
                }
                "*" if self.text(i.wrapping_sub(1)) == "::" || !prefix.is_empty() => {
                    segments.push("*".into());
                    i += 1;
                    break;
                }
                word if is_word(word) && word != "as" => {
                    segments.push(word.to_owned());
                    i += 1;
                    if self.text(i) != "::" {
                        break;
                    }
                }
                _ => break,
            }
        }
        let mut alias = None;
        if self.text(i) == "as" && is_word(self.text(i + 1)) && !prefix_is_cast(self, i) {
            alias = Some(self.text(i + 1).to_owned());
            i += 2;
        }
        if segments.len() > prefix.len() {
            let last = &self.tokens[(i - 1).min(self.tokens.len() - 1)];
            found.push(CodePath {
                segments,
                alias,
                line: last.line,
                is_test: last.is_test,
                inline: last.inline.clone(),
            });
        }
        i
    }

    /// Every `mod name;`.
    pub(crate) fn module_files(&self) -> Vec<ModuleFile> {
        let mut found = Vec::new();
        for i in 0..self.tokens.len() {
            if self.text(i) == "mod" && is_word(self.text(i + 1)) && self.text(i + 2) == ";" {
                let token = &self.tokens[i];
                found.push(ModuleFile {
                    name: self.text(i + 1).to_owned(),
                    path: self.path_attribute_before(i),
                    is_test: token.is_test,
                    inline: token.inline.clone(),
                });
            }
        }
        found
    }

    fn path_attribute_before(&self, module: usize) -> Option<String> {
        let floor = (0..module)
            .rev()
            .find(|&k| matches!(self.text(k), ";" | "{" | "}"))
            .map_or(0, |k| k + 1);
        (floor..module)
            .find(|&k| self.text(k) == "path" && self.text(k + 1) == "=")
            .map(|k| self.text(k + 2).trim_start_matches('"').to_owned())
    }

    /// The comment text of `line` and of the `above` lines before it, as one run of words in lower case.
    pub(crate) fn comments_near(&self, line: usize, above: usize) -> String {
        let first = line.saturating_sub(above).max(1);
        let joined: Vec<&str> = (first..=line)
            .filter_map(|l| self.comments.get(l - 1))
            .flat_map(|c| c.trim_start_matches(['/', '!', '*']).split_whitespace())
            .collect();
        joined.join(" ").to_lowercase()
    }
}

/// `a::b as u32` in an expression is a cast, not a rename; renames stand in `use` items only, where no `=`, `(` or
/// operator follows. Either way only the word after `as` is consumed, so a wrong guess loses nothing that tidy checks.
fn prefix_is_cast(source: &Source, i: usize) -> bool {
    !matches!(source.text(i + 2), "," | "}" | ";")
}

pub(crate) fn is_word(text: &str) -> bool {
    text.chars()
        .next()
        .is_some_and(|c| c.is_alphabetic() || c == '_')
}

fn raw_string_hashes(chars: &[char], i: usize) -> Option<usize> {
    let mut k = i;
    if matches!(chars[k], 'b' | 'c') {
        k += 1;
    }
    if chars.get(k) != Some(&'r') {
        return None;
    }
    let hashes = chars[k + 1..].iter().take_while(|c| **c == '#').count();
    (chars.get(k + 1 + hashes) == Some(&'"')).then_some(hashes)
}

fn is_test_attribute(words: &[&str]) -> bool {
    if words == ["test"] {
        return true;
    }
    let has = |word: &str| words.contains(&word);
    words.first() == Some(&"cfg") && has("test") && !has("not") && !(has("any") && has("feature"))
}
