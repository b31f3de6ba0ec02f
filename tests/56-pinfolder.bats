# SPDX-License-Identifier: BSD-2-Clause
# The pin directory: its trusted owners, its lock, and killed commands.
# bats file_tags=bpf

load helpers

FOLDER=$FUNCSNOOP_BPFFS/funcsnoop

# Each command that reads or writes the directory fails with TEXT.
refused() { # TEXT
	local command

	for command in "list" "stats" "list inflight" "list functions g" "reset" "detach g" \
		"detach --all" "set g --slow 1ms" "attach g fix_add --lib $FIX/libfix.so"; do
		# shellcheck disable=SC2086	# several words
		fsn -s 1 $command
		assert_eq "$output" ""
		grep -qF -e "$1" <<<"${stderr%%$'\n'*}" || fail "'$command' did not say: $1"
	done
	fsn -s 1 list --json
	assert_json 'keys' '["error"]'
}

fresh_folder() {
	need_bpf
	rm -rf "$FOLDER"
	[[ ! -e $FOLDER ]] || rmdir "$FOLDER"
}

@test "pins: attach creates the directory with mode 0700; the last detach removes it" {
	fresh_folder
	fsn list --json
	assert_output '{"version":1,"groups":[]}'
	fsn detach --all
	[[ ! -e $FOLDER ]] || fail "a reading command made $FOLDER"
	fsn attach g fix_add --lib "$FIX/libfix.so"
	assert_eq "$(stat -c '%a %u' "$FOLDER" "$FOLDER/g")" "700 0
700 0"
	fsn attach h fix_add --lib "$FIX/libfix.so.1"
	fsn detach g
	assert_eq "$(ls "$FOLDER")" h
	fsn detach h
	[[ ! -e $FOLDER ]] || fail "$FOLDER is still there"
	fsn -s 1 attach g no_such_function --lib "$FIX/libfix.so.1"
	[[ ! -e $FOLDER ]] || fail "an attach that failed has left $FOLDER"
	mkdir "$FOLDER"
	fsn list --json
	assert_output '{"version":1,"groups":[]}'
	[[ -d $FOLDER ]] || fail "a reading command took $FOLDER away"
}

@test "pins: an attach without a lock leaves no directory and removes no used one" {
	fresh_folder
	need_tool strace
	capture -s 1 strace -f -qq -o /dev/null -e trace=mkdirat \
		-e inject=mkdirat:error=ENOSPC:when=2 "$FUNCSNOOP" attach g fix_add \
		--lib "$FIX/libfix.so.1"
	assert_stderr "funcsnoop attach: cannot attach group 'g': cannot lock '$FOLDER': No space left on device"
	[[ ! -e $FOLDER ]] || fail "$FOLDER is left"
	fsn attach h fix_add --lib "$FIX/libfix.so.1"
	capture -s 1 strace -f -qq -o /dev/null -e trace=mkdirat \
		-e inject=mkdirat:error=ENOSPC:when=2 "$FUNCSNOOP" attach g fix_add \
		--lib "$FIX/libfix.so.1"
	assert_eq "$(ls "$FOLDER")" h
	fsn detach h
	[[ ! -e $FOLDER ]] || fail "$FOLDER is still there"
}

# A detach by one user may remove the directory during an attach by another, and vice versa.
in_turn() { # NAME TIMES
	local dir=$BATS_TEST_TMPDIR/$1 i calls

	mkdir "$dir"
	cp "$FIX/call" "$FIX/libfix.so.1" "$dir"
	for ((i = 0; i < $2; i++)); do
		"$FUNCSNOOP" -q attach "$1" fix_add --lib "$dir/libfix.so.1" || return
		"$dir/call" add 7 >/dev/null
		calls=$("$FUNCSNOOP" stats "$1" --json | jq -c '[.[].functions[].calls]')
		[[ $calls == '[7]' ]] || { echo "$1 counts $calls"; return 1; }
		[[ $("$FUNCSNOOP" list "$1" --json | jq '.[0].calls') == 7 ]] || return
		"$FUNCSNOOP" detach "$1" || return
	done
	echo "$1 is done"
}

@test "pins: concurrent attaches and detaches lose no group with the directory" {
	local name pids=()

	fresh_folder
	for name in a b c; do
		in_turn "$name" 6 >"$BATS_TEST_TMPDIR/$name.out" 2>&1 3>&- &
		pids+=($!)
	done
	wait "${pids[@]}"
	for name in a b c; do
		assert_eq "$(<"$BATS_TEST_TMPDIR/$name.out")" "$name is done"
	done
	[[ ! -e $FOLDER ]] || fail "$FOLDER is still there"
}

@test "pins: a command waiting for the lock of a removed directory creates the next" {
	need_tool flock
	fresh_folder
	mkdir -p "$FOLDER/~lock"
	start_bg holder flock "$FOLDER/~lock" bash -c 'echo held; read -r _'
	wait_line holder "^held$"
	start_bg attach "$FUNCSNOOP" attach g fix_add --lib "$FIX/libfix.so.1"
	waits() {
		bg_ended attach || [[ $(cat "/proc/$(bg_pid attach)/wchan") == *nanosleep* ]]
	}
	poll_until waits
	bg_ended attach && fail "attach did not wait"
	rmdir "$FOLDER/~lock" "$FOLDER"
	wait_bg attach
	assert_eq "$(groups)" g
	fsn detach g
	tell holder
	wait_bg holder
}

@test "pins: a directory of another user is refused" {
	fresh_folder
	mkdir -m 0700 "$FOLDER"
	chown 65534 "$FOLDER"
	refused "'$FOLDER' belongs to user 65534"
	rmdir "$FOLDER"
}

@test "pins: a directory that others can write is refused" {
	fresh_folder
	mkdir "$FOLDER"
	chmod 0777 "$FOLDER"
	refused "'$FOLDER' can be written by others (mode 0777)"
	chmod 0720 "$FOLDER"
	refused "'$FOLDER' can be written by others (mode 0720)"
	chmod 0755 "$FOLDER"
	fsn list --json
	assert_output '{"version":1,"groups":[]}'
	rmdir "$FOLDER"
}

@test "pins: a symbolic link instead of the directory is refused" {
	fresh_folder
	mkdir "$FUNCSNOOP_BPFFS/elsewhere"
	ln -s elsewhere "$FOLDER"
	refused "'$FOLDER' is not a directory"
	assert_eq "$(find "$FUNCSNOOP_BPFFS/elsewhere" -mindepth 1)" ""
	rm "$FOLDER"
	rmdir "$FUNCSNOOP_BPFFS/elsewhere"
}

@test "pins: a pinned object instead of the directory is refused" {
	need_tool bpftool
	fresh_folder
	capture bpftool map create "$FOLDER" type array key 4 value 4 entries 1 name other
	refused "'$FOLDER' is not a directory"
	rm "$FOLDER"
}

@test "pins: a missing directory, or one outside of bpffs, is refused" {
	need_root
	mkdir "$BATS_TEST_TMPDIR/plain"
	FUNCSNOOP_BPFFS=$BATS_TEST_TMPDIR/plain refused "'$BATS_TEST_TMPDIR/plain' is not a bpffs"
	assert_eq "$(find "$BATS_TEST_TMPDIR/plain" -mindepth 1)" ""
	FUNCSNOOP_BPFFS=$BATS_TEST_TMPDIR/nosuch refused "'$BATS_TEST_TMPDIR/nosuch'"
	ln -s "$FUNCSNOOP_BPFFS" "$BATS_TEST_TMPDIR/link"
	FUNCSNOOP_BPFFS=$BATS_TEST_TMPDIR/link refused "'$BATS_TEST_TMPDIR/link'"
}

@test "pins: --bpffs works before and after the command and overrides the environment" {
	need_bpf
	FUNCSNOOP_BPFFS=/nosuch fsn --bpffs "$FUNCSNOOP_BPFFS" list --json
	assert_output '{"version":1,"groups":[]}'
	FUNCSNOOP_BPFFS=/nosuch fsn list --json --bpffs "$FUNCSNOOP_BPFFS"
	assert_output '{"version":1,"groups":[]}'
	FUNCSNOOP_BPFFS=/nosuch fsn list --json "--bpffs=$FUNCSNOOP_BPFFS"
	assert_output '{"version":1,"groups":[]}'
	fsn -s 1 --bpffs /nosuch list
	assert_stderr_match "^funcsnoop list: cannot open bpffs directory '/nosuch': No such file"
}

@test "pins: an entry that is not a group is neither listed nor touched" {
	need_bpf
	need_tool bpftool
	fsn attach g fix_add --lib "$FIX/libfix.so"
	mkdir "$FOLDER/+other"
	capture bpftool map create "$FOLDER/+map" type array key 4 value 4 entries 1 name other
	assert_eq "$(groups)" "g"
	fsn detach --all
	assert_eq "$(ls "$FOLDER")" "+map
+other"
	rm "$FOLDER/+map"
	rmdir "$FOLDER/+other"
}

# --- the lock -------------------------------------------------------------------------

@test "pins: a writer waits for the lock and continues when it is free" {
	need_bpf
	need_tool flock
	fsn attach g fix_add --lib "$FIX/libfix.so"
	mkdir "$FOLDER/~lock"
	start_bg holder flock "$FOLDER/~lock" bash -c 'echo held; read -r _'
	wait_line holder "^held$"
	start_bg detach "$FUNCSNOOP" detach g
	waits() { # in the loop of the lock, or it has ended
		bg_ended detach || [[ $(cat "/proc/$(bg_pid detach)/wchan") == *nanosleep* ]]
	}
	poll_until waits
	bg_ended detach && fail "detach did not wait"
	# Readers take no lock.
	assert_eq "$(groups)" "g"
	fsn stats g
	fsn list inflight
	tell holder
	wait_bg holder
	wait_bg detach
	assert_eq "$(groups)" ""
}

@test "pins: the lock is in a directory that only its owner can open" {
	need_bpf
	need_tool setpriv
	chmod o+x "${FUNCSNOOP_BPFFS%/*}" "$FUNCSNOOP_BPFFS"
	fsn attach g fix_add --lib "$FIX/libfix.so" --mode 0644
	assert_eq "$(stat -c %a "$FOLDER")" 755
	start_bg holder setpriv --reuid 65534 --regid 65534 --clear-groups flock "$FOLDER" \
		bash -c 'echo held; read -r _'
	wait_line holder "^held$"
	fsn set g --slow 1ms
	fsn reset g
	assert_eq "$(ls "$FOLDER")" g
	tell holder
	wait_bg holder
	# One that a killed writer left is taken over, and goes.
	mkdir -m 0700 "$FOLDER/~lock"
	fsn list
	assert_eq "$(ls "$FOLDER")" g
	mkdir -m 0700 "$FOLDER/~lock"
	fsn detach g
	assert_eq "$(ls "$FOLDER")" ""
}

@test "pins: an owner who cannot lock the directory excludes other writers" {
	need_bpf
	need_tool flock setpriv
	chmod o+x "${FUNCSNOOP_BPFFS%/*}" "$FUNCSNOOP_BPFFS"
	fsn attach g fix_add --lib "$FIX/libfix.so" --owner 65534
	fsn attach h fix_add --lib "$FIX/libfix.so"
	start_bg holder setpriv --reuid 65534 --regid 65534 --clear-groups flock \
		"$FOLDER/g/~lock" bash -c 'echo held; read -r _'
	wait_line holder "^held$"
	fsn -s 1 set g --slow 1ms
	assert_stderr "funcsnoop set: 'g' is locked by process $(bg_pid holder) (flock)"
	fsn set h --slow 1ms
	tell holder
	wait_bg holder
	fsn set g --slow 1ms
	fsn detach g h
	assert_eq "$(ls "$FOLDER")" ""
}

# bats test_tags=bpf,slow
@test "pins: a writer waits 20 seconds for the lock, then reports its holder" {
	local begin name

	need_bpf
	need_tool flock
	fsn attach g fix_add --lib "$FIX/libfix.so"
	mkdir "$FOLDER/~lock"
	start_bg holder flock "$FOLDER/~lock" bash -c 'echo held; read -r _'
	wait_line holder "^held$"
	start_bg attach "$FUNCSNOOP" --json attach h fix_add --lib "$FIX/libfix.so"
	start_bg reset "$FUNCSNOOP" --json reset g
	start_bg set "$FUNCSNOOP" --json set g --slow 1ms
	start_bg stats "$FUNCSNOOP" --json stats --reset
	begin=$SECONDS
	fsn -s 1 detach g
	assert_between $((SECONDS - begin)) 19 60 "seconds waited"
	assert_stderr "funcsnoop detach: '$FOLDER' is locked by process $(bg_pid holder) (flock)"
	for name in attach reset set stats; do
		wait_bg -s 1 "$name"
		assert_json '.error | test("is locked by process")' true
	done
	assert_eq "$(groups)" "g"
	tell holder
	wait_bg holder
	fsn detach g
}

@test "pins: concurrent commands leave complete groups" {
	local i

	need_bpf
	for i in 1 2 3 4 5 6; do
		start_bg "attach$i" "$FUNCSNOOP" attach "g$i" fix_add --lib "$FIX/libfix.so"
	done
	for i in 1 2 3 4 5 6; do
		wait_bg "attach$i"
	done
	assert_eq "$(groups)" "g1 g2 g3 g4 g5 g6"
	capture "$FIX/call" add 20
	for i in 1 2 3 4 5 6; do
		start_bg "detach$i" "$FUNCSNOOP" detach "g$i"
		fsn list --json
		assert_json_true 'all(.[]; .calls == 20 and (has("error") | not))'
	done
	for i in 1 2 3 4 5 6; do
		wait_bg "detach$i"
	done
	assert_eq "$(groups)" ""
}

@test "pins: one of several attaches with one name succeeds" {
	local i good=0

	need_bpf
	for i in 1 2 3 4; do
		start_bg "attach$i" "$FUNCSNOOP" attach g fix_add --lib "$FIX/libfix.so"
	done
	for i in 1 2 3 4; do
		wait_bg -s any "attach$i"
		((status)) || ((++good))
		((status == 0)) || assert_stderr_match "group 'g' is already attached"
	done
	assert_eq "$good" 1
	fsn detach g
}

# --- killed commands ------------------------------------------------------------------

# Whether the next command finds the group whole, or nothing.
whole_or_nothing() {
	case $(groups) in
	g)
		capture "$FIX/call" add 10
		capture "$FIX/call" ret 5
		assert_numbers g "fix_add 10 0 10 0 0 0
fix_ret 5 0 5 0 0 0"
		;;
	"")
		poll_until holds_only ""
		;;
	*)
		fail "groups: $(groups)"
		;;
	esac
}

attach_killed() { # MODE TIMES
	local attach=("$FUNCSNOOP" attach g fix_add fix_ret --lib "$FIX/libfix.so" --link "$1")
	local i span whole=0

	need_link "$1"
	span=$(ms_of "${attach[@]}")
	fsn detach g
	for ((i = 0; i < $2; i++)); do
		killed_within "$span" "${attach[@]}" >/dev/null
		whole_or_nothing
		[[ ! -d $FOLDER/g ]] || fsn detach g
	done
	[[ -n ${FSN_SHARED-} ]] || poll_until no_new_objects
}

@test "pins: attach killed at any moment leaves a complete group or nothing (session)" {
	attach_killed session 20
}

@test "pins: attach killed at any moment leaves a complete group or nothing (perf)" {
	attach_killed perf 10
}

detach_killed() { # MODE TIMES
	local i span

	need_link "$1"
	for ((i = 0; i <= $2; i++)); do
		[[ -d $FOLDER/g ]] ||
			fsn attach g fix_add fix_ret --lib "$FIX/libfix.so" --link "$1"
		if ((i == 0)); then
			span=$(ms_of "$FUNCSNOOP" detach g)
			continue
		fi
		killed_within "$span" "$FUNCSNOOP" detach g
		fsn reset
		whole_or_nothing
	done
	fsn detach --all
	[[ -n ${FSN_SHARED-} ]] || poll_until no_new_objects
}

@test "pins: detach killed at any moment leaves a complete group or nothing (session)" {
	detach_killed session 20
}

@test "pins: detach killed at any moment leaves a complete group or nothing (perf)" {
	detach_killed perf 10
}

@test "pins: killed attach --replace leaves the complete old or new group" {
	local replace=("$FUNCSNOOP" attach g fix_ret --replace --lib "$FIX/libfix.so")
	local i span old new

	need_bpf
	fsn attach g fix_add --lib "$FIX/libfix.so"
	span=$(ms_of "${replace[@]}")
	for ((i = 0; i < 12; i++)); do
		fsn attach g fix_add --replace --lib "$FIX/libfix.so"
		killed_within "$span" "${replace[@]}" >/dev/null
		assert_eq "$(groups)" "g" "round $i"
		capture "$FIX/call" add 10
		capture "$FIX/call" ret 5
		fsn stats g --json
		[[ $(json '.[0].functions[] | "\(.name) \(.calls)"') =~ ^(fix_add\ 10|fix_ret\ 5)$ ]] ||
			fail "neither group is there whole"
		poll_until holds_only g
	done
	fsn detach g
	[[ -n ${FSN_SHARED-} ]] || poll_until no_new_objects
}

# --- other layouts --------------------------------------------------------------------

@test "pins: a group of another layout can be listed and detached, but not read" {
	local bytes

	need_bpf
	need_tool bpftool
	fsn attach g fix_add --lib "$FIX/libfix.so"
	fsn attach h fix_add --lib "$FIX/libfix.so"
	capture bpftool -j map dump pinned "$FOLDER/g/meta"
	read -ra bytes < <(json '.[0].value | .[0] = "0x63" | join(" ")')
	capture bpftool map update pinned "$FOLDER/g/meta" key 0 0 0 0 value "${bytes[@]}"
	fsn -s 1 stats g
	assert_output ""
	assert_stderr_match "^funcsnoop stats: group 'g' has layout 99, this command reads layout [0-9]+$"
	assert_stderr_match "^hint: "
	fsn -s 1 reset g
	fsn -s 1 set g --slow 1ms
	fsn -s 1 list inflight g
	fsn -s 1 list functions g
	fsn -s 1 stats g --json
	assert_json '.error | startswith("group '\''g'\'' has layout 99")' true
	fsn list --json
	assert_json 'map([.name, .functions, .calls, .stale, (.error // "" | test("layout 99"))])' \
		'[["g",null,null,null,true],["h",1,0,false,false]]'
	fsn list
	assert_output_match "^g +\(group 'g' has layout 99"
	assert_output_match "^h "
	fsn stats h --json
	fsn -s 1 attach g fix_add --lib "$FIX/libfix.so"
	fsn attach g fix_add --replace --lib "$FIX/libfix.so"
	assert_numbers g ""
	capture bpftool map update pinned "$FOLDER/g/meta" key 0 0 0 0 value "${bytes[@]}"
	fsn detach g h
	assert_eq "$(groups)" ""
}

@test "pins: an empty directory of a group is listed with its error and detached" {
	need_bpf
	fsn attach h fix_add --lib "$FIX/libfix.so"
	mkdir "$FOLDER/empty"
	fsn list --json
	assert_json 'map([.name, has("error")])' '[["empty",true],["h",false]]'
	fsn -s 1 stats empty
	fsn detach empty
	assert_eq "$(groups)" "h"
	fsn detach h
}
