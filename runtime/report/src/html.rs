//! Pages of HTML with everything in them: no other file, no network.

/// A page around a body of HTML, in the style of all our pages.
#[must_use]
pub fn document(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=en>\n<head>\n<meta charset=utf-8>\n<meta name=viewport \
         content=\"width=device-width\">\n<title>{}</title>\n<style>\n{}</style>\n</head>\n\
         <body>\n{body}</body>\n</html>\n",
        escape(title),
        include_str!("page.css")
    )
}

#[must_use]
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
