#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
# Hints: each is made to appear, and the line that it tells is run as it stands.

load helpers

setup() {
	common_setup
	need_bpf
	need_tool jq
	LIB=$(realpath "$FIX/libfix.so")
	CALL=$FIX/call
}

teardown() {
	"$FUNCSNOOP" detach --all >/dev/null 2>&1 || true
	common_teardown
}

# What hints call the program.
funcsnoop() {
	fsn "$@"
}

# The hint of a command that ends with STATUS matches REGEX; by SED it becomes the line that is run.
follow() { # STATUS REGEX SED COMMAND...
	local hint line

	fsn -s "$1" "${@:4}"
	hint=$(sed -n 's/^hint: //p' <<<"$stderr")
	[[ $hint =~ $2 ]] || differs "hint" "$2" "$hint"
	line=$(sed -E "$3" <<<"$hint")
	[[ $line != "$hint" ]] || fail "no line in: $hint"
	eval "$line"
}

# The first command in quotes.
QUOTED="s/^[^']*'(funcsnoop [^']*)'.*/\\1/"

@test "hint: wrong usage names a command that shows the usage" {
	follow 2 "^'funcsnoop help run' shows the usage$" "$QUOTED" run g f --lib "$LIB" --by process --no-processes
	assert_output_match '^Usage: funcsnoop run '
	follow 2 "^'funcsnoop help' shows the usage$" "$QUOTED" nosuch
	assert_output_match '^Usage: '
}

@test "hint: 'list' is suggested for a group that is not attached" {
	fsn attach here fix_add --lib "$LIB"
	follow 1 "^'funcsnoop list' shows what is attached$" "$QUOTED" stats nowhere
	assert_output_match '^here '
}

@test "hint: a stream without a group names a command that says how to attach one" {
	follow 1 "^'funcsnoop help attach' shows how" "$QUOTED" stream
	assert_output_match '^Usage: funcsnoop attach '
}

@test "hint: calls in flight are shown by the command that is named" {
	start_bg c "$CALL" --wait hang 1
	wait_ready c
	fsn attach g fix_hang --lib "$LIB"
	tell c
	poll_until calls_in_flight
	fsn stats g
	eval "$(sed -nE "s/^in flight: 1 call; '(funcsnoop list inflight g)' shows it$/\1/p" <<<"$output")"
	assert_output_match 'fix_hang'
	stop_bg c || true
}

calls_in_flight() {
	"$FUNCSNOOP" stats g --json | jq -e '.[0].functions[0].in_flight == 1' >/dev/null
}

@test "hint: run shows calls in flight without naming the group that it removes" {
	start_bg c "$CALL" --wait hang 1
	wait_ready c
	start_bg r "$FUNCSNOOP" run "$LIB:fix_hang" -p "$(bg_pid c)"
	poll_until grep -q 'attached to' "$(bg_err r)"
	tell c
	poll_until held_by_run
	stop_bg -INT r || true
	grep -qx 'in flight: 1 call' "$(bg_out r)" || fail "$(cat "$(bg_out r)")"
	! grep -q 'list inflight' "$(bg_out r)" "$(bg_err r)" || fail "names a group that is gone"
	stop_bg c || true
}

held_by_run() {
	"$FUNCSNOOP" stats --json | jq -e '.[0].functions[0].in_flight == 1' >/dev/null
}

@test "hint: functions without times have their reasons in the list that is named" {
	fsn attach g fix_add --lib "$LIB" --count
	eval "$(sed -nE "s/^g: 1 without times; '(funcsnoop list functions g)' says why$/\1/p" <<<"$output")"
	assert_output_match '^fix_add .*none'
}

@test "hint: a word that is no preset comes after the name of a group" {
	follow 1 "^'funcsnoop list presets' shows them; a FUNCTION comes after the name of a group, such as 'g fix_add'$" \
		"s/.*'(g fix_add)'$/funcsnoop attach \1 --lib $(sed 's/[/&]/\\&/g' <<<"$LIB")/" \
		attach fix_add --lib "$LIB"
	fsn list
	assert_output_match '^g '
	follow 1 "^'funcsnoop list presets'" "$QUOTED" attach fix_add --lib "$LIB"
	assert_output_match '^cuda '
}

@test "hint: a name that is near is found" {
	follow 1 "^did you mean 'fix_add'" "s/^did you mean '(fix_add)'.*/funcsnoop attach g \1 --lib \"\$LIB\"/" \
		attach g fix_adb --lib "$LIB"
	fsn list functions g
	assert_output_match '^fix_add '
	follow 1 "^did you mean 's:getppid'" "s/^did you mean '([^']*)'.*/funcsnoop attach h \1 --dry-run/" \
		attach h s:getppidx --dry-run
}

@test "hint: an option that is near is taken" {
	fsn -s 2 stats --srot total
	[[ $stderr =~ did\ you\ mean\ \'(--[a-z]+)\' ]] || fail "$stderr"
	fsn -s 0 stats "${BASH_REMATCH[1]}" total
}

@test "hint: all functions of a program are meant by the glob that is named" {
	follow 1 "^use '$CALL:\*' for all functions of that file$" \
		"s/^use ('.*') for .*$/funcsnoop attach g \1 --dry-run/" run "$CALL"
	assert_output_match ' main|^main '
}

@test "hint: functions that are only imported are found where the hint says" {
	follow 1 "^name that library with --lib, or as $LIB:fix_add$" \
		"s/^name that library with --lib, or as (.*)$/funcsnoop attach g \1/" \
		attach g fix_add --lib "$CALL"
	fsn detach g
	follow 1 "^[0-9]+ names, such as 'fix_recurse', are only imported: --lib $LIB$" \
		"s/^.*: (--lib .*)$/funcsnoop attach g 'fix_re*' \1/" attach g 'fix_re*' --lib "$CALL"
}

@test "hint: a stripped program is called stripped; no other library is suggested" {
	local bare=$BATS_TEST_TMPDIR/bare

	strip -o "$bare" "$CALL"
	fsn -s 1 attach g '*' --lib "$bare"
	assert_stderr_match "^hint: $bare is stripped"
	refute_stderr_match '--lib|only imported'
}

@test "hint: CAP_SYS_PTRACE is named only where it is missing" {
	fsn -s 1 attach g nosuchlibrary:fix_add
	refute_stderr_match CAP_SYS_PTRACE
	"$FUNCSNOOP" feature --json | jq -e . >/dev/null
}

@test "hint: an attached group is replaced, or pinned under another name" {
	local option

	fsn attach g fix_add --lib "$LIB"
	for option in --replace '--name h'; do
		fsn -s 1 attach g fix_add --lib "$LIB"
		assert_stderr_match "^hint: use --replace to replace it, or --name NAME to attach under another name$"
		# shellcheck disable=SC2086	# two words
		fsn attach g fix_add --lib "$LIB" $option
	done
	assert_eq "$(groups)" "g h"
}

@test "hint: a group without stacks gets them as the hint says" {
	fsn attach g fix_add --lib "$LIB"
	follow 2 "^attach the group again with --replace --stacks all$" \
		's/^attach the group again with (.*)$/funcsnoop attach g fix_add --lib "$LIB" \1/' \
		stats g --by stack
	capture "$CALL" add 3
	fsn stats g --by stack
	assert_output_match 'fix_add +3 '
}

@test "hint: run records the data of its view, and suggests no option afterwards" {
	fsn run "$LIB:fix_add" --by stack -o "$BATS_TEST_TMPDIR/out" -- "$CALL" add 3
	grep -Eq '^100.0 +fix_add +3 ' "$BATS_TEST_TMPDIR/out" || fail "$(cat "$BATS_TEST_TMPDIR/out")"
	fsn run "$LIB:fix_add" --by comm -o "$BATS_TEST_TMPDIR/out" -- "$CALL" add 3
	grep -Eq '^fix_add +call +3 ' "$BATS_TEST_TMPDIR/out" || fail "$(cat "$BATS_TEST_TMPDIR/out")"
}

@test "hint: contradictions of run are found before the command is started" {
	local args ran=$BATS_TEST_TMPDIR/ran

	while read -ra args; do
		fsn -s 2 run "$LIB:fix_add" "${args[@]}" -- touch "$ran"
		[[ ! -e $ran ]] || fail "the command ran: ${args[*]}"
	done <<-END
		--by process --no-processes
		--by cgroup --no-processes
		--by stack --no-keys
		--by comm --no-keys
		--tree --no-nesting
		--tree --sample 2
		--hist --count
		--errors --count
		--by blocked-in --count
		--by nosuch
	END
	fsn -s 2 run syscalls --by stack -- touch "$ran"
	fsn -s 1 run "$LIB:fix_add" --diff "$BATS_TEST_TMPDIR/nowhere" -- touch "$ran"
	[[ ! -e $ran ]] || fail "the command ran"
}

@test "hint: an argument without a name is called by its number" {
	local bare=$BATS_TEST_TMPDIR/libbare.so

	objcopy --remove-section '.debug_*' "$LIB" "$bare"
	follow 2 "use arg1 to arg[68]$" \
		"s/.*use (arg1) to arg[68]$/funcsnoop attach g fix_add --lib \"\$bare\" --if '\1 > 0' --dry-run/" \
		attach g fix_add --lib "$bare" --if 'a > 0' --dry-run
}

@test "hint: memory of a function that a preset knows is followed with that preset" {
	follow 2 "^preset 'malloc' knows it: use 'malloc malloc' instead of the group and FUNCTION$" \
		"s/^.*: use '(malloc malloc)' .*/funcsnoop attach \1 --memory --dry-run/" \
		attach g c:malloc --memory --dry-run
	assert_output_match '^malloc '
}

@test "hint: a document to compare with is written by the command that is named" {
	echo '{' >"$BATS_TEST_TMPDIR/bad"
	fsn attach g fix_add --lib "$LIB"
	follow 1 "^'funcsnoop stats --save FILE' writes one$" \
		"s|^'(funcsnoop stats --save )FILE'.*|\1$BATS_TEST_TMPDIR/good|" \
		stats g --diff "$BATS_TEST_TMPDIR/bad"
	fsn stats g --diff "$BATS_TEST_TMPDIR/good"
}

@test "hint: a directory without bpffs is mounted as the hint says" {
	local dir=$BATS_TEST_TMPDIR/bpf

	mkdir "$dir"
	follow 1 "^run 'mount -t bpf bpf $dir'$" "s/^run '(.*)'$/\1/" --bpffs "$dir" attach g fix_add --lib "$LIB"
	fsn --bpffs "$dir" attach g fix_add --lib "$LIB"
	fsn --bpffs "$dir" detach g
	umount "$dir"
}

@test "hint: slow calls are remembered as the hint says" {
	fsn attach g fix_add --lib "$LIB"
	start_bg s "$FUNCSNOOP" stream g --slow
	poll_until grep -q "funcsnoop set g --slow" "$(bg_err s)"
	eval "$(sed -nE "s/.*'(funcsnoop set g --slow) DUR' .*/\1 1ns/p" "$(bg_err s)")"
	fsn list functions g
	stop_bg s || true
}
