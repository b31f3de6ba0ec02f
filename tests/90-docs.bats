#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
# The table of commands, their --help, the man pages, the completion and the README say the
# same: each command or option that is forgotten in one of them fails here.

# shellcheck disable=SC2016,SC2154,SC2317,SC2046,SC2086

load helpers

ROOT=$BATS_TEST_DIRNAME/..
README=$ROOT/README.md
# --- what each of them says, a word a line, sorted ------------------------------------

# The table of options, each with the commands that have it.
commands() {
	"$FUNCSNOOP" help --words | grep -v '^-' | sort
}

commands_with_page() {
	commands | grep -vxE 'help|version'
}

help_long() { # [COMMAND]
	"$FUNCSNOOP" help --words "$@" | sed -n 's/^--\([^ ]*\) .*/\1/p' | sort
}

help_short() { # [COMMAND]: "x long"
	"$FUNCSNOOP" help --words "$@" | sed -n 's/^--\([^ ]*\) \([^-]\) .*/\2 \1/p' | sort
}

# Options that every command has: all that `reset` has, which has none of its own.
shared_long() {
	help_long reset
}

own_long() { # COMMAND
	comm -23 <(help_long "$1") <(shared_long)
}

own_short() { # COMMAND
	comm -23 <(help_short "$1") <(help_short reset)
}

man_long() { # PAGE
	sed -En 's/^\.It Fl (. , )?-([a-z-]+).*/\2/p' "$ROOT/man/$1" | sort
}

man_short() { # PAGE
	sed -En 's/^\.It Fl (.) , -([a-z-]+).*/\1 \2/p' "$ROOT/man/$1" | sort
}

completed() { # WORD...: the last one is what is typed
	bash --norc -c '. "$1" && shift && COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) &&
		_funcsnoop && printf "%s\n" "${COMPREPLY[@]}"' bash \
		"$ROOT/completions/funcsnoop" "$FUNCSNOOP" "$@" | sort
}

help_values() { # COMMAND OPTION
	"$FUNCSNOOP" help --words "$1" | sed -n "s/^--$2 [^ ]* [^ ]* [^ ]* //p" | tr ' ' '\n' | sort
}

same() { # WHAT EXPECTED ACTUAL: lists, of which differences are shown
	[[ -n $2 && $2 == "$3" ]] && return
	echo "-- $1: expected (-), found (+)" >&2
	diff -U0 <(echo "$2") <(echo "$3") | tail -n +4 >&2
	return 1
}

# --- commands -------------------------------------------------------------------------

@test "help: every command has help, which starts with its usage" {
	local c

	for c in $(commands); do
		fsn help "$c"
		[[ $stderr == '' ]]
		assert_output_match '^Usage: funcsnoop '
		fsn "$c" --help
		assert_output_match '^Usage: funcsnoop '
	done
	for c in $(commands_with_page); do
		fsn help "$c"
		assert_output_match "^Usage: funcsnoop $c \[OPTION...\]"
	done
}

@test "help: has an example, and fits 80 columns and a limit of lines" {
	local c

	for c in help $(commands_with_page); do
		fsn "$c" --help
		assert_between "${#lines[@]}" 8 "$(case $c in
			run) echo 60 ;; attach) echo 40 ;; stats | stream) echo 30 ;; *) echo 24 ;; esac)" \
			"lines of $c --help"
		assert_eq "$(awk 'length > 80' <<<"$output")" "" "lines of $c --help that are too long"
		assert_output_match "^(Example:|Examples:$)"
		assert_output_match "^(Example:|) +funcsnoop $([[ $c == help ]] || echo "$c")"
	done
}

@test "help: lists every option of the command" {
	local c name

	for c in $(commands_with_page); do
		fsn "$c" --help
		for name in $(help_long "$c"); do
			assert_output_match "(^ +|-., |, |\||: |^  )--$name( |,|$)"
		done
	done
}

@test "man: every command has one definition and a page, and every page a command" {
	same "man pages" "$(commands_with_page)" \
		"$(cd "$ROOT/man" && printf '%s\n' funcsnoop-*.8 | sed 's/^funcsnoop-//; s/\.8$//' | sort)"
	for c in $(commands_with_page); do
		assert_eq "$(cat "$ROOT"/cmd/*.c | grep -c "^const struct command cmd_$c = {")" 1 "$c"
	done
}

@test "man: funcsnoop(8) has every command, and refers to every page" {
	same "commands" "$(commands)" \
		"$(sed -n '/^\.Sh COMMANDS/,/^\.Sh OPTIONS/p' "$ROOT/man/funcsnoop.8" |
			sed -En 's/^\.It Cm ([a-z]+).*/\1/p' | sort)"
	same "SEE ALSO" "$(cd "$ROOT/man" && printf '%s\n' *.[578] | grep -vx funcsnoop.8)" \
		"$(sed -n '/^\.Sh SEE ALSO/,/^\.Sh CAV/p' "$ROOT/man/funcsnoop.8" |
			sed -En 's/^\.Xr (funcsnoop[a-z-]*) ([578]).*/\1.\2/p' | sort)"
}

@test "completion: offers every command" {
	same "commands" "$(commands)" "$(completed "")"
	same "commands after help" "$(commands)" "$(completed help "")"
}

@test "README: names every command" {
	local c

	for c in $(commands); do
		grep -qE "\`$c\`" "$README" || fail "README does not name $c"
	done
}

# --- options ---------------------------------------------------------------------------

@test "man: every option of a command is in its page, with its short form" {
	local c bad=0

	for c in $(commands_with_page); do
		[[ "$(own_long "$c")$(man_long "funcsnoop-$c.8")" == '' ]] ||
			same "options in funcsnoop-$c.8" "$(own_long "$c")" \
				"$(man_long "funcsnoop-$c.8")" || bad=1
		[[ "$(own_short "$c")$(man_short "funcsnoop-$c.8")" == '' ]] ||
			same "short options in funcsnoop-$c.8" "$(own_short "$c")" \
				"$(man_short "funcsnoop-$c.8")" || bad=1
	done
	return $bad
}

@test "man: global options are in funcsnoop(8), and in the help of every command" {
	local c

	same "options before a command and in funcsnoop(8)" \
		"$(sort -u <(help_long) <(shared_long))" "$(man_long funcsnoop.8)"
	same "short options" "$(help_short)" "$(man_short funcsnoop.8)"
	for c in $(commands_with_page); do
		[[ -z $(comm -23 <(shared_long) <(help_long "$c")) ]] ||
			fail "$c lacks global options"
	done
	same "options that only stand before a command" "pid
version" \
		"$(comm -23 <(help_long) <(shared_long))"
}

@test "completion: offers every option, with its short form" {
	local c bad=0

	for c in '' $(commands_with_page); do
		same "completed options of '$c'" "$(help_long $c)" \
			"$(completed $c - | sed -n 's/^--//p')" || bad=1
		same "completed short options of '$c'" \
			"$(help_short $c | sed 's/ .*//' | sort -u)" \
			"$(completed $c - | sed -n 's/^-\(.\)$/\1/p' | sort -u)" || bad=1
	done
	return $bad
}

@test "completion: knows which options take a value" {
	local c words

	for c in $(commands_with_page); do
		words=$("$FUNCSNOOP" help --words "$c" | grep '^--')
		# shellcheck disable=SC2046	# several words
		capture bash --norc -c '. "$1"; COMP_WORDS=("$2") rows="" rows_of=-
			for option in "${@:4}"; do
				! _funcsnoop_takes_value "$3" "$option" || echo "$option"
			done' bash "$ROOT/completions/funcsnoop" "$FUNCSNOOP" "$c" $(cut -d ' ' -f 1 <<<"$words")
		assert_eq "$output" "$(awk '$3 != "-" { print $1 }' <<<"$words")" \
			"options of $c with a value"
	done
}

@test "completion: offers the values of options that help and the man page have" {
	local c o word

	while read -r c o; do
		same "values of $c --$o" "$(help_values "$c" "$o")" "$(completed "$c" "--$o" "")"
		for word in $(help_values "$c" "$o"); do
			sed -n "/^\.It Fl .*-$o /,/^\.It Fl /p" "$ROOT/man/funcsnoop-$c.8" |
				grep -qE "^\.(It )?Cm (.* )?$word( |$)" || fail "no $word of --$o in the page"
		done
	done <<-END
		attach with
		attach without
		attach probe
		stats sort
		stats show
		stats by
		stats format
	END
	same "values of --color" "$(help_values stats color)" "$(completed --color "")"
}

# --- pages -------------------------------------------------------------------------------

@test "man: mandoc prints no warning for the pages" {
	need_tool mandoc
	# References to pages that are not installed do not matter.
	capture -s any mandoc -T lint "$ROOT"/man/*.[578]
	output=$(grep -vE 'referenced manual not found|outdated mandoc\.db|^$' <<<"$output
$stderr") || true
	assert_output ""
}

@test "man: groff prints no warning for the pages" {
	local page

	need_tool groff
	groff -mdoc -z /dev/null 2>/dev/null || skip "needs groff with its macros"
	for page in "$ROOT"/man/*.[578]; do
		capture groff -mdoc -ww -z -Tutf8 "$page"
		assert_stderr ""
	done
}

@test "docs: files and make targets in README and CONTRIBUTING exist" {
	local doc name

	for doc in "$README" "$ROOT/.github/CONTRIBUTING.md"; do
		while read -r name; do
			[[ -e $ROOT/$name ]] || fail "$doc: no $name"
		done < <(grep -oE '[`(](cmd|lib|bpf|man|tests|completions|\.github)/[A-Za-z0-9_./-]*' \
			"$doc" | cut -c 2- | grep -v NAME | sort -u)
		while read -r name; do
			grep -qE "^$name:|^\.PHONY:.* $name( |$)" "$ROOT/GNUmakefile" \
				"$ROOT"/tests/*.mk "$ROOT"/tests/*/*.mk || fail "$doc: no make $name"
		done < <(grep -oE '(\bsudo|`|^)( ?)make [a-z0-9-]+' "$doc" | sed 's/.*make //' | sort -u)
	done
}

@test "README: the first screens show how to start" {
	capture head -65 "$README"
	assert_output_line "sudo make demo"
	assert_output_line "sudo make check"
	assert_output_match '^\$ sudo funcsnoop run '
	assert_output_match '^\$ sudo funcsnoop attach '
}

@test "words-check: no findings in the files that lint checks" {
	need_tool python3
	capture env -u MAKEFLAGS make -C "$ROOT" -s V=1 lint-words
	assert_output ""
}

@test "README: at most 250 lines" {
	assert_between "$(wc -l <"$README")" 100 250 "lines"
}

@test "README: check-distros runs the commands for a fresh machine" {
	capture "$ROOT/tests/check-distros" --commands
	assert_output "apt-get update && apt-get install -y sudo make
sudo make demo
sudo make check"
}

# --- JSON ----------------------------------------------------------------------------------

# Keys of one document of funcsnoop-json(5).
page_keys() { # SECTION
	awk -v want=".Ss $1" '/^\.S[sh]/ { on = $0 == want } on && /^\.It Va/' \
		"$ROOT/man/funcsnoop-json.5" | sed 's/^\.It Va //; s/ , /\n/g' | sort -u
}

# Keys of all documents in stdin.
json_keys() {
	command jq -r 'if type == "array" then . elif .error then del(.version)
		else .groups // .calls // .presets // .targets // .threads // del(.version) end
		| [paths | map(strings)[]] | unique[]' | sort -u
}

same_keys() { # SECTION DOCUMENT...
	same "keys of $1" "$(page_keys "$1")" "$(printf '%s\n' "${@:2}" | json_keys)"
}

@test "man: funcsnoop-json(5) has exactly the keys of documents that need no privilege" {
	local calls

	need_tool jq
	fsn version --json
	same_keys version "$output"
	fsn list presets --json
	same_keys "list presets" "$output"
	fsn list targets s:getppid --json
	same_keys "list targets" "$output"
	for calls in 4 5 6; do
		echo "[{\"group\":\"g\",\"functions\":[{\"name\":\"f\",\"calls\":$calls}]}]" \
			>"$BATS_TEST_TMPDIR/$calls.json"
	done
	fsn compare "$BATS_TEST_TMPDIR"/[456].json --json
	same_keys compare "$output"
	fsn -s 1 stats nosuch --json --bpffs /nowhere
	same_keys error "$output"
	fsn attach j 'fix_a*' --lib "$FIX/libfix.so" --dry-run --json
	assert_eq "$(json_keys <<<"$output")" \
		"$({ page_keys "attach and list functions"; page_keys "attach --dry-run"; } |
			grep -vxE 'groups|(granted|cost)_ns_per_s|tried_ns|kept|sampled|counted_only|left_out|expensive|calls_per_s' | sort -u)"
	fsn -s 1 attach j nosuch --lib "$FIX/libfix.so" --dry-run --json
	assert_json '[keys, (.groups[0] | keys)]' \
		'[["error","groups"],["aliases","functions","group","libraries","missing","overhead"]]'
}

@test "man: funcsnoop-json(5) has exactly the keys of documents on groups" {
	local slow

	need_bpf
	need_tool jq bpftool
	cat >"$BATS_TEST_TMPDIR/j.json" <<-END
		{ "j_sym": { "fix_fail": { "symbol": "fix_fail", "ret": "int", "error": "nonzero",
		                           "slow": "0ns" }, "fix_hang": "fix_hang",
		             "fix_alias_a": "fix_alias_a" },
		  "lib": "$FIX/libfix.so" }
	END
	fsn attach --config "$BATS_TEST_TMPDIR/j.json" --overhead 10000% --key arg1 --sum arg1 --json
	# No function of this group is called.
	output=$(jq -c '.[0].overhead.expensive = [{name: "", limited: "", calls_per_s: 0}]' <<<"$output")
	same_keys "attach and list functions" "$output"
	fsn list functions j --json
	output=$(jq -c '.[0].overhead.expensive = [{name: "", limited: "", calls_per_s: 0}]' <<<"$output")
	same_keys "attach and list functions" "$output"
	capture "$FIX/call" --arg 7 fail 3
	fsn stats --slow --json
	assert_json '.[0].slow_calls | length' 3
	slow=$output
	fsn stats --tree --json
	assert_json '.[0].tree | length' 1
	same_keys stats "$(jq -c --argjson slow "$slow" '. + $slow' <<<"$output")"

	start_bg hang "$FIX/call" hang 1
	wait_line hang '^blocked '
	fsn list inflight --lines --json
	same_keys "list inflight" "$output"
	fsn stack "$(bg_pid hang)" --json
	same_keys stack "$output"
	tell hang
	wait_bg hang
	fsn list --json
	assert_eq "$(json_keys <<<"$output")" "$(page_keys list | grep -vx error)"
	fsn detach j
}

# A group as another version of the command might have laid it out.
@test "list: --json has the key error for an unreadable group, and detach removes it" {
	local meta=$FUNCSNOOP_BPFFS/funcsnoop/k/meta unreadable

	need_bpf
	need_tool jq bpftool
	fsn attach k fix_add --lib "$FIX/libfix.so"
	# The value is a word a byte; the layout is its first word.
	bpftool map update pinned "$meta" key 0 0 0 0 value $(
		bpftool -j map lookup pinned "$meta" key 0 0 0 0 | jq -r '.value[]' |
			sed '1s/.*/0xfe/')
	fsn list --json
	assert_json '.[0] | [.name, .libraries, .functions, .calls, .stale]' \
		'["k",[],null,null,null]'
	assert_json ".[0].error | test(\"^group 'k' has layout 254, this command reads layout [1-9]\")" true
	unreadable=$(json '.[0] | keys')
	fsn detach k
	fsn attach k fix_add --lib "$FIX/libfix.so"
	fsn list --json
	assert_json '.[0] | keys + ["error"] | sort' "$unreadable"
	fsn detach k
}
