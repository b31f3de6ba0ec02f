# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
# Pages in a browser: loaded by tests.

# Sets output to the document of a page in a browser after its scripts have run.
browse() { # URL OPTION...
	local shell

	for shell in chromium-headless-shell chromium ''; do
		[[ $shell ]] && command -v "$shell" >/dev/null && break
	done
	[[ $shell ]] || skip "needs chromium-headless-shell"
	capture -t 60 env HOME="$BATS_TEST_TMPDIR" "$shell" --headless --no-sandbox --disable-gpu \
		--user-data-dir="$BATS_TEST_TMPDIR/browser" --dump-dom "${@:2}" "$1"
}

as_text() {
	sed 's/&lt;/</g; s/&gt;/>/g; s/&amp;/\&/g'
}

# Runs SCRIPT in the flame graph PAGE in a browser, and prints the object `said` as JSON.
in_browser() { # PAGE SCRIPT
	local page=$BATS_TEST_TMPDIR/driven.html
	{
		sed '/<\/head>/i <script>const errors = []; onerror = (what) => { errors.push(what); };</script>' "$1" |
			sed '/<\/body>/,$d'
		printf '<script>\n%s\n%s\ntell();\n</script></body></html>\n' "$(<"$BATS_TEST_DIRNAME/fixtures/flame.js")" "$2"
	} >"$page"
	browse "file://$page" --window-size=1200,700
	output=$(sed -n 's/.*<pre id="said">\(.*\)<\/pre>.*/\1/p' <<<"$output" | as_text)
}
