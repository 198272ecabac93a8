//! Elements as text. All other text is escaped here and nowhere else, because names and reasons come from outside.

use std::fmt::Display;

pub(super) type Attribute<'a> = (&'a str, &'a dyn Display);

#[derive(Debug, Default)]
pub(super) struct Markup(String);

impl Markup {
    pub(super) fn finish(self) -> String {
        self.0
    }

    pub(super) fn element(
        &mut self,
        tag: &str,
        attributes: &[Attribute<'_>],
        inside: impl FnOnce(&mut Markup),
    ) {
        self.begin(tag, attributes);
        self.0.push('>');
        inside(self);
        self.0 += &format!("</{tag}>");
        if ends_a_line(tag) {
            self.0.push('\n');
        }
    }

    /// An element with text only.
    pub(super) fn leaf(&mut self, tag: &str, attributes: &[Attribute<'_>], text: &str) {
        self.element(tag, attributes, |markup| markup.text(text));
    }

    pub(super) fn empty(&mut self, tag: &str, attributes: &[Attribute<'_>]) {
        self.begin(tag, attributes);
        self.0 += "/>";
    }

    pub(super) fn text(&mut self, text: &str) {
        self.0 += &escaped(text);
    }

    /// The style sheet: ours, and the one thing that is not escaped.
    pub(super) fn style(&mut self, css: &'static str) {
        self.0 += &format!("<style>\n{css}</style>\n");
    }

    fn begin(&mut self, tag: &str, attributes: &[Attribute<'_>]) {
        self.0 += &format!("<{tag}");
        for (name, value) in attributes {
            self.0 += &format!(" {name}=\"{}\"", escaped(&value.to_string()));
        }
    }
}

fn ends_a_line(tag: &str) -> bool {
    ["p", "li", "tr", "svg", "h1", "h2", "h3", "h4", "div", "section", "figure", "thead", "dd"]
        .contains(&tag)
}

fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe += "&amp;",
            '<' => safe += "&lt;",
            '>' => safe += "&gt;",
            '"' => safe += "&quot;",
            '\'' => safe += "&#39;",
            // Control characters have no place in a document.
            c if c.is_control() => safe.push(' '),
            c => safe.push(c),
        }
    }
    safe
}

/// A length in user units, to a tenth.
pub(super) fn px(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").unwrap_or(&text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_attributes_are_escaped() {
        let mut markup = Markup::default();
        markup.leaf("b", &[("title", &"\"><script>")], "a < b & 'c'\u{7}");
        assert_eq!(
            markup.finish(),
            "<b title=\"&quot;&gt;&lt;script&gt;\">a &lt; b &amp; &#39;c&#39; </b>"
        );
    }

    #[test]
    fn lengths_are_short() {
        assert_eq!([px(1.0), px(-0.04), px(12.345)], ["1", "-0", "12.3"]);
    }
}
