# SPDX-License-Identifier: BSD-2-Clause
# Names and files of other users: they never reach a terminal unescaped, and never lead out of
# the pin directory.
# bats file_tags=bpf

# shellcheck disable=SC2030,SC2031	# each test has a $status of its own

load helpers

FOLDER=$FUNCSNOOP_BPFFS/funcsnoop
ELSEWHERE=$FUNCSNOOP_BPFFS/elsewhere

# Colours, titles, bells, a C1 control in UTF-8 (a CSI to some terminals), broken UTF-8.
COMM=$'\e]\a\r\xc2\x9b\b\xff\x7f\ny'
NAME=$'\e[31m\a\r\xc2\x9b7m\xff\xfe\x7f'

setup() {
	common_setup
	need_bpf
}

teardown() {
	rm -rf "$ELSEWHERE" 2>/dev/null || true
	find "$FOLDER" "$ELSEWHERE" -mindepth 1 -maxdepth 1 -type l -delete 2>/dev/null || true
	common_teardown
}

# Whether FILE has nothing that steers a terminal: C0 but for line ends (of terminals and CSV:
# CR LF) and tabs, DEL, C1; and whether it is UTF-8.
is_clean() { # FILE
	iconv -f UTF-8 -t UTF-8 "$1" >/dev/null 2>&1 && ! sed 's/\r$//' "$1" |
		LC_ALL=C grep -qaP '[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]'
}

# fsn, and all that it says is clean.
clean() { # [-s STATUS] ARG...
	local file

	fsn "$@"
	for file in out err; do
		is_clean "$BATS_TEST_TMPDIR/.$file" ||
			fail "std$file of '${*@Q}' is raw: $(cat -v "$BATS_TEST_TMPDIR/.$file")"
	done
}

# The same where the output is a terminal.
clean_terminal() { # ARG...
	local command

	command=$(printf '%q ' "$FUNCSNOOP" --color never "$@")
	capture -s any script -qec "stty cols 200; $command" /dev/null
	[[ -n $output ]] || fail "'$command' said nothing"
	# A terminal makes CR LF of LF, so CR CR LF of a table's ends.
	sed -i 's/\r\r$/\r/' "$BATS_TEST_TMPDIR/.out"
	is_clean "$BATS_TEST_TMPDIR/.out" ||
		fail "'$command' is raw on a terminal: $(cat -v "$BATS_TEST_TMPDIR/.out")"
}

# --- names ----------------------------------------------------------------------------

@test "hostile: the check of output itself distinguishes clean from unclean" {
	local text file=$BATS_TEST_TMPDIR/text

	printf 'plain \\x1b\tcaf\xc3\xa9 \xe2\x82\xac\n' >"$file"
	is_clean "$file"
	for text in '\0033[31m' '\a' '\r' '\0302\0233' '\0377' '\0177' 'x\by'; do
		printf 'a%bb\n' "$text" >"$file"
		! is_clean "$file" || fail "$text seems clean"
	done
}

@test "hostile: a program's name cannot control a terminal" {
	local view format

	need_terminal
	fsn attach g fix_hang fix_add --lib "$FIX/libfix.so" --slow 0ns
	start_bg call "$FIX/call" --threads 1 --comm "$COMM" hang 1
	wait_line call "^blocked "
	capture "$FIX/call" --threads 1 --comm "$COMM" add 5
	for view in "stats g --by process" "stats g --slow" "stats g --all" "list inflight" \
		"list inflight g --all" "list"; do
		# shellcheck disable=SC2086	# several words
		{
			clean $view
			clean $view --json
			clean_terminal $view
		}
	done
	for format in table json csv prometheus openmetrics; do
		clean stats g --format "$format"
	done
	# The name is shown, in an unambiguous form.
	fsn list inflight
	assert_output_match '\\x1b\]\\x07\\x0d\\xc2\\x9b\\x08\\xff\\x7f'
	fsn stats g --by process
	assert_output_match '\\x1b\]\\x07\\x0d\\xc2\\x9b'
	tell call
	wait_bg call
	fsn detach g
}

@test "hostile: a program's name cannot control the terminal of a stream" {
	"$FUNCSNOOP" help stream >/dev/null 2>&1 || skip "no stream here"
	fsn attach g fix_add --lib "$FIX/libfix.so"
	start_bg text "$FUNCSNOOP" stream g --number 3
	start_bg json "$FUNCSNOOP" stream g --number 3 --json
	calls() {
		"$FIX/call" --threads 1 --comm "$COMM" add 3 >/dev/null
		bg_ended text && bg_ended json
	}
	poll_until calls
	wait_bg text
	is_clean "$(bg_out text)" || fail "raw: $(cat -v "$(bg_out text)")"
	assert_output_match '\\x1b\]\\x07\\x0d\\xc2\\x9b'
	wait_bg json
	is_clean "$(bg_out json)" || fail "raw: $(cat -v "$(bg_out json)")"
	fsn detach g
}

@test "hostile: a library's path cannot control a terminal" {
	local lib=$BATS_TEST_TMPDIR/$NAME/lib$NAME.so view

	need_terminal
	mkdir "${lib%/*}"
	cp "$FIX/libfix.so.1" "$lib"
	clean attach g fix_add fix_ret --lib "$lib"
	LD_PRELOAD=$lib capture "$FIX/call" add 5
	for view in list "list functions g" "stats g" "stats g --by library" "stats g --hist" \
		"stats g --format csv" "stats g --format prometheus" \
		"stats g --format openmetrics"; do
		# shellcheck disable=SC2086	# several words
		clean $view
		# shellcheck disable=SC2086
		[[ $view == *--format* ]] || clean $view --json
		# shellcheck disable=SC2086
		clean_terminal $view
	done
	fsn stats g
	assert_output_match "^fix_add +5 "
	clean -s 1 attach h nosuch --lib "$lib"
	clean -s 1 attach h nosuch --lib "$lib" --json
	clean_terminal attach h nosuch --lib "$lib"
	rm "$lib"
	clean list
	clean -s 1 attach h fix_add --lib "$lib"
	clean_terminal attach h fix_add --lib "$lib"
	fsn detach g
}

# U+202E, behind which "gpj.os" reads as "so.jpg"; data has it as it is.
@test "hostile: bidirectional characters are shown as bytes on a terminal" {
	local lib=$BATS_TEST_TMPDIR/lib$'\xe2\x80\xae'gpj.so

	cp "$FIX/libfix.so.1" "$lib"
	fsn attach g fix_add --lib "$lib"
	fsn list
	assert_output_match '/lib\\xe2\\x80\\xaegpj\.so'
	refute_output_match $'\xe2\x80\xae'
	fsn list --json
	assert_json_true '.[0].libraries[0] | endswith("lib\u202egpj.so")'
	fsn detach g
}

@test "hostile: text from options and files is shown without control characters" {
	local dir=$BATS_TEST_TMPDIR/config/funcsnoop/presets file=$BATS_TEST_TMPDIR/$NAME.json
	local args

	need_terminal
	mkdir -p "$dir"
	printf '{"description":"d\\u001b[31m\\u009b\\u0007","lib":"x","%s_sym":{"f":"f"}}' mine \
		>"$dir/mine.json"
	printf '{"%s_sym":{"f":"f"}}' other >"$dir/$NAME.json"
	export XDG_CONFIG_HOME=$BATS_TEST_TMPDIR/config
	clean -s any list presets
	clean -s any list presets --json
	clean_terminal list presets
	printf '{"lib":"%s","a\\u001b_sym":{"f\\u001b[1m":"f"}}' "$FIX/libfix.so" >"$file"
	for args in "attach|--config|$file" "attach|--config|$file$NAME" "attach|$NAME|f" \
		"attach|g|$NAME|--lib|$FIX/libfix.so" "attach|g|f|--lib|$NAME" "$NAME" \
		"detach|$NAME" "stats|$NAME" "reset|$NAME" "list|$NAME" "list|functions|$NAME" \
		"set|$NAME|--slow|1ms" "set|g|--slow|$NAME" "list|--bpffs|/tmp/$NAME" \
		"stats|--sort|$NAME" "stats|--diff|$NAME" "stats|--save|/nosuch/$NAME" \
		"list|--color|$NAME" "--$NAME" "help|$NAME"; do
		IFS='|' read -ra args <<<"${args//$'\n'/ }"
		clean -s any "${args[@]}"
		((status == 1 || status == 2)) || fail "status $status: ${args[*]@Q}"
		[[ -n $stderr ]] || fail "nothing said: ${args[*]@Q}"
		clean -s any "${args[@]}" --json
		clean_terminal "${args[@]}"
	done
}

# --- the folder -----------------------------------------------------------------------

# Files outside of the groups' directory, with the ids of pinned objects.
outside() {
	find "$FUNCSNOOP_BPFFS" -path "$FOLDER" -prune -o -printf '%p %i %y %m %U\n' | sort
}

# A complete group outside of the directory.
group_elsewhere() {
	fsn attach away fix_add --lib "$FIX/libfix.so"
	mv "$FOLDER/away" "$ELSEWHERE"
}

remove_elsewhere() {
	mkdir -p "$FOLDER"
	mv "$ELSEWHERE" "$FOLDER/away"
	fsn detach away
}

@test "hostile: a group's name cannot leave the directory, in any command" {
	local name before

	group_elsewhere
	before=$(outside)
	for name in .. . ../elsewhere "$ELSEWHERE" a/../../elsewhere '' '~' 'away~' '+x'; do
		fsn -s 1 attach --lib "$FIX/libfix.so" -- "$name" fix_add
		fsn -s 1 attach --lib "$FIX/libfix.so" --replace -- "$name" fix_add
		fsn -s 1 attach --lib "$FIX/libfix.so" --name "$name" g fix_add
		fsn -s 1 detach -- "$name"
		fsn -s 1 stats -- "$name"
		fsn -s 1 stats --reset -- "$name"
		fsn -s 1 reset -- "$name"
		fsn -s 1 list -- "$name"
		fsn -s 1 list functions -- "$name"
		fsn -s 1 list inflight -- "$name"
		fsn -s 1 set --slow 1ms -- "$name"
		assert_output ""
	done
	assert_eq "$(outside)" "$before"
	assert_eq "$(ls -A "$FOLDER")" ""
	remove_elsewhere
}

@test "hostile: a configuration file cannot create a group outside the directory" {
	local name before file=$BATS_TEST_TMPDIR/c.json

	group_elsewhere
	before=$(outside)
	for name in ../elsewhere .. a/b '' '+x' 'x~'; do
		jq -n --arg key "${name}_sym" --arg lib "$FIX/libfix.so" \
			'{lib: $lib, ($key): {fix_add: "fix_add"}}' >"$file"
		fsn -s 1 attach --config "$file"
		fsn -s 1 attach --config "$file" --replace
	done
	assert_eq "$(outside)" "$before"
	assert_eq "$(ls -A "$FOLDER")" ""
	remove_elsewhere
}

@test "hostile: a symbolic link is not a group, and its target stays" {
	local before

	group_elsewhere
	ln -s ../elsewhere "$FOLDER/g"
	ln -s "$ELSEWHERE" "$FOLDER/h"
	before=$(outside)
	for command in "stats g" "stats h" "stats --reset g" "reset g" "list functions g" \
		"list inflight g" "set g --slow 1ms"; do
		# shellcheck disable=SC2086	# several words
		fsn -s 1 $command
		assert_output ""
	done
	fsn list --json
	assert_output '{"version":1,"groups":[]}'
	fsn -s 1 detach g
	fsn detach --all
	fsn -s 1 attach g fix_add --lib "$FIX/libfix.so"
	fsn attach g fix_add --lib "$FIX/libfix.so" --replace
	assert_eq "$(ls -A "$FOLDER")" "g
h"
	fsn detach g
	assert_eq "$(ls -A "$FOLDER")" "h"
	assert_eq "$(outside)" "$before"
	rm "$FOLDER/h"
	remove_elsewhere
}

@test "hostile: attach builds no group in the target of a symbolic link" {
	local before

	group_elsewhere
	ln -s ../elsewhere "$FOLDER/g~"
	before=$(outside)
	fsn attach g fix_add --lib "$FIX/libfix.so"
	assert_eq "$(ls -A "$FOLDER")" "g"
	ln -s ../elsewhere "$FOLDER/h~"
	fsn detach g
	assert_eq "$(ls -A "$FOLDER")" ""
	assert_eq "$(outside)" "$before"
	remove_elsewhere
}

@test "hostile: a symbolic link instead of a map is not followed" {
	local map

	need_tool bpftool
	fsn attach away fix_add --lib "$FIX/libfix.so"
	fsn attach g fix_add --lib "$FIX/libfix.so"
	capture "$FIX/call" add 5
	mkdir "$ELSEWHERE"
	for map in meta funcs text stats ctl; do
		[[ -e $FOLDER/g/$map ]] || fail "no map $map"
		mv "$FOLDER/g/$map" "$ELSEWHERE/$map"
		ln -s "../../elsewhere/$map" "$FOLDER/g/$map"
		fsn -s 1 stats g
		assert_output ""
		fsn -s 1 reset g
		rm "$FOLDER/g/$map"
		mv "$ELSEWHERE/$map" "$FOLDER/g/$map"
	done
	assert_numbers g "fix_add 5 0 5 0 0 0"
	ln -s ../away/meta "$FOLDER/g/extra"
	fsn detach g
	assert_numbers away "fix_add 5 0 5 0 0 0"
	fsn detach away
	rmdir "$ELSEWHERE"
}

# --- planted objects ------------------------------------------------------------------

# Commands that read or write end with a status of their own, not by a signal.
no_crash() { # WHAT
	local command

	for command in "stats g --slow" "reset g"; do
		# shellcheck disable=SC2086	# several words
		fsn -s any $command
		((status <= 1)) || fail "$1: '$command' ended with status $status"
	done
}

@test "hostile: a group with foreign maps gives an error and no crash" {
	local pin kind

	need_tool bpftool
	fsn attach g fix_add --lib "$FIX/libfix.so"
	mkdir "$ELSEWHERE"
	for pin in "$FOLDER"/g/*; do
		pin=${pin##*/}
		mv "$FOLDER/g/$pin" "$ELSEWHERE/$pin"
		for kind in "array key 4 value 8192 entries 3" "hash key 64 value 8 entries 2"; do
			# shellcheck disable=SC2086	# several words
			capture bpftool map create "$FOLDER/g/$pin" type $kind name other
			no_crash "$pin: $kind"
			rm "$FOLDER/g/$pin"
		done
		no_crash "no $pin"
		mv "$ELSEWHERE/$pin" "$FOLDER/g/$pin"
	done
	assert_numbers g ""
	fsn detach g
	rmdir "$ELSEWHERE"
}

@test "group: a pin of another group's map is refused, and so are pins of two maps in exchange" {
	local pin

	fsn attach g fix_add --lib "$FIX/libfix.so" --key arg1
	fsn attach away fix_add --lib "$FIX/libfix.so" --key arg1
	capture "$FIX/call" add 5
	mkdir "$ELSEWHERE"
	for pin in meta funcs text ctl stats hists procs rows; do
		mv "$FOLDER/g/$pin" "$ELSEWHERE/$pin"
		ln "$FOLDER/away/$pin" "$FOLDER/g/$pin"
		fsn -s 1 stats g
		assert_stderr_match "^funcsnoop stats: .*'g'.*damaged"
		fsn -s 1 reset g
		rm "$FOLDER/g/$pin"
		mv "$ELSEWHERE/$pin" "$FOLDER/g/$pin"
	done
	mv "$FOLDER/g/base0" "$ELSEWHERE/base0"
	mv "$FOLDER/g/base1" "$FOLDER/g/base0"
	mv "$ELSEWHERE/base0" "$FOLDER/g/base1"
	fsn -s 1 stats g
	assert_stderr_match "damaged"
	# It hides no other group.
	fsn list --json
	assert_json '[.[] | [.name, .calls, (.error // "" | test("damaged"))]]' \
		'[["away",5,false],["g",null,true]]'
	fsn -s 1 stats --json
	assert_json '[.[] | [.group, .functions[0].calls]]' '[["away",5]]'
	assert_stderr "funcsnoop stats: cannot read statistics of group 'g': one of its maps is damaged"
	fsn detach away
	fsn -s 1 stats --json
	assert_json '.error | test("damaged")' true
	fsn detach g
	rmdir "$ELSEWHERE"
}

@test "list: a group whose functions have unknown exits is listed as damaged" {
	local bytes at

	need_tool bpftool
	fsn attach g fix_add --lib "$FIX/libfix.so"
	capture bpftool -j map dump pinned "$FOLDER/g/funcs"
	at=$(field_at fsn_func exit)
	read -ra bytes < <(json --argjson at "$at" '.[0].value | .[$at + 3] = "0x7f" | join(" ")')
	capture bpftool map update pinned "$FOLDER/g/funcs" key 0 0 0 0 value "${bytes[@]}"
	fsn list --json
	assert_json '[.[] | [.name, .exits, .error]]' \
		"[[\"g\",null,\"group 'g' is damaged: map 'funcs'\"]]"
	fsn -s 1 list functions g
	assert_stderr "funcsnoop list: group 'g' is damaged: map 'funcs'"
	fsn detach g
}

@test "hostile: damaged types are reported as damage in all forms" {
	local bytes form

	need_tool bpftool
	typed_config t ty_i8
	fsn attach --config "$CONFIG" t --key v
	capture "$FIX/typed" ty_i8 1
	capture bpftool -j map dump pinned "$FOLDER/t/types"
	read -ra bytes < <(json --argjson at "$(field_at fsn_type kind)" \
		'.[0].value | .[$at] = "0x7f" | join(" ")')
	capture bpftool map update pinned "$FOLDER/t/types" key 0 0 0 0 value "${bytes[@]}"
	for form in "--by v" "--by v --format csv" "--by v --format openmetrics" "--json" \
		"--fail-if calls>9"; do
		# shellcheck disable=SC2086	# several words
		fsn -s 1 stats t $form
		assert_stderr_match "^funcsnoop stats: cannot show statistics: .*damaged"
	done
	fsn detach t
}

@test "hostile: a group with too large counts gives an error and no crash" {
	local bytes changed at value

	need_tool bpftool
	fsn attach g fix_add --lib "$FIX/libfix.so"
	capture bpftool -j map dump pinned "$FOLDER/g/meta"
	read -ra bytes < <(json '.[0].value | join(" ")')
	# The first word is the layout.
	for ((at = 4; at < ${#bytes[@]}; at += 4)); do
		for value in 0xff; do
			changed=("${bytes[@]}")
			changed[at]=$value changed[at + 1]=$value
			changed[at + 2]=$value changed[at + 3]=$value
			capture bpftool map update pinned "$FOLDER/g/meta" key 0 0 0 0 \
				value "${changed[@]}"
			no_crash "word $((at / 4)): $value"
		done
	done
	capture bpftool map update pinned "$FOLDER/g/meta" key 0 0 0 0 value "${bytes[@]}"
	assert_numbers g ""
	fsn detach g
}

# --- files that change ------------------------------------------------------------------

mapped_or_ended() { # FILE NAME
	grep -qsF "$1" /proc/[0-9]*/maps || bg_ended "$2"
}

# It is cut while the command waits, after it was mapped and before its code is read.
@test "hostile: a library truncated while it is read is rejected, without a crash" {
	local lib=$BATS_TEST_TMPDIR/libcut.so how

	need_tool strace
	need_no_sanitizer
	for how in "truncate -s 4096" "truncate -s 0" "touch -d 2001-01-01"; do
		rm -f "$lib"
		cp "$FIX/libfix.so" "$lib"
		start_bg attach strace -f -qq -o "$BATS_TEST_TMPDIR/trace" -P "$lib" -e trace=fstatfs \
			-e inject=fstatfs:delay_enter=3000000 "$FUNCSNOOP" attach g '*' --lib "$lib"
		poll_until mapped_or_ended "$lib" attach
		$how "$lib"
		wait_bg -s 1 attach
		assert_stderr_match "^funcsnoop attach: .*'$lib' changed while it was read\$"
		fsn list --json
		assert_output '{"version":1,"groups":[]}'
	done
}

# Each is a file of its own: it would be opened, read and probed.
@test "hostile: very many mapped copies of a library do not prevent its tracing" {
	local dir=$BATS_TEST_TMPDIR/copies good=$BATS_TEST_TMPDIR/good i

	need_tool perl setpriv
	mkdir "$good" "$dir"
	chmod o+x "$BATS_RUN_TMPDIR" "${BATS_TEST_TMPDIR%/*}" "$BATS_TEST_TMPDIR"
	cp "$FIX/libfix.so" "$good/libcopied.so.13"
	mkdir "$dir"/{0..1499}
	for i in "$dir"/*; do
		cp "$FIX/libfix.so" "$i/libcopied.so.13"
	done
	# shellcheck disable=SC2016	# perl's own
	start_bg user setpriv --reuid 65534 --regid 65534 --clear-groups perl -e '
		my ($dir, $machine) = @ARGV;
		for my $i (0 .. 1499) {
			open(my $f, "<", "$dir/$i/libcopied.so.13") or die;
			syscall($machine eq "aarch64" ? 222 : 9, 0, 4096, 5, 2, fileno($f), 0);
		}
		$| = 1;
		print "mapped\n";
		<STDIN>' "$dir" "$(uname -m)"
	wait_line user "^mapped$"
	LD_LIBRARY_PATH=$good fsn attach g fix_add --lib copied
	assert_output_match "^g: 33 functions of "
	assert_stderr "funcsnoop attach: left out: 1468 more mapped files of such names, as users \
map more than 32; use --pid or a path for them"
	fsn detach g
	fsn attach g fix_add --lib "$dir/1499/libcopied.so.13"
	fsn detach g
	tell user
	wait_bg user
}
