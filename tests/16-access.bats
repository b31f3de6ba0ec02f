# SPDX-License-Identifier: BSD-2-Clause
# --mode, --owner and --mode-all: data of a group that users can read without privileges, and
# data that only the owner can read or change.
# bats file_tags=bpf

load helpers

LIB=$FIX/libfix.so
GID=64321 # nobody's: only processes that are given it have it
FOLDER=$FUNCSNOOP_BPFFS/funcsnoop

# A command as user 65534 whose only group is GID, without any capability.
as_reader() { # [-s STATUS] CMD...
	local opts=()

	if [[ $1 == -s ]]; then
		opts=(-s "$2")
		shift 2
	fi
	capture "${opts[@]}" setpriv --reuid 65534 --regid "${READER_GID:-$GID}" \
		--clear-groups --inh-caps=-all --bounding-set=-all --no-new-privs "$@"
}

read_as() { # [-s STATUS] ARG...: funcsnoop as the reader
	if [[ $1 == -s ]]; then
		as_reader -s "$2" "$FUNCSNOOP" "${@:3}"
	else
		as_reader "$FUNCSNOOP" "$@"
	fi
}

# BPF_OBJ_GET by itself, as the reader; the status is its errno. FLAGS as of map creation:
# 8 BPF_F_RDONLY, 16 BPF_F_WRONLY, 0 both.
obj_get() { # [-s STATUS] PATH FLAGS
	local want=0

	if [[ $1 == -s ]]; then
		want=$2
		shift 2
	fi
	need_tool perl
	# shellcheck disable=SC2016	# perl's own
	as_reader -s "$want" perl -e '
		my ($path, $flags, $machine) = @ARGV;
		my $attr = pack("p L L", "$path\0", 0, $flags);
		my $fd = syscall($machine eq "aarch64" ? 280 : 321, 7, $attr, length $attr);
		exit($fd < 0 ? 0 + $! : 0)' "$1" "$2" "$(uname -m)"
}

need_readers() {
	need_bpf
	need_tool setpriv
	# The way to the bpffs of the tests.
	chmod o+x "${FUNCSNOOP_BPFFS%/*}"
	chmod o+x "$FUNCSNOOP_BPFFS"
	[[ ! -e $FOLDER ]] || rmdir "$FOLDER"
	as_reader test -x "$FUNCSNOOP_BPFFS" || skip "users cannot reach $FUNCSNOOP_BPFFS"
	as_reader test -x "$FUNCSNOOP" || skip "users cannot run $FUNCSNOOP"
}

# Common part of two readings at rest, by any user. Rates and the clock change; process filters
# and the cgroup of an exited process are only for the owner.
counters() {
	json 'walk(if type == "object" then del(.time, .calls_per_s, .cgroup) | with_entries(
		select(.key | startswith("cost_") or . == "lost_children" or . == "over" | not))
		else . end)'
}

# Mode, owner and group of the files in the directory, one per line.
modes() { # NAME...
	(cd "$FOLDER" && stat -c '%n %a %u %g' "$@")
}

@test "access: by default only the owner can read a group" {
	need_readers
	fsn attach g fix_add --lib "$LIB"
	assert_eq "$(modes . g g/stats g/slow)" ". 700 0 0
g 700 0 0
g/stats 600 0 0
g/slow 600 0 0"
	read_as -s 1 stats g
	assert_output ""
	assert_stderr "funcsnoop stats: cannot open '$FOLDER': Permission denied
hint: needs root, or a group attached with --share: funcsnoop-attach(8)"
	read_as -s 1 list --json
	assert_json .error "cannot open '$FOLDER': Permission denied"
	fsn detach g
}

@test "access: readers in the user group see exact statistics without privileges" {
	local mine

	need_readers
	fsn attach g fix_add fix_fail fix_nested --lib "$LIB" --mode 0640 --owner ":$GID"
	assert_stderr ""
	assert_eq "$(find "$FOLDER" -perm /022)" "" "what others may write"
	capture "$FIX/call" nested 7 # fix_add 7 times
	capture "$FIX/call" --arg 3 fail 40
	fsn stats g --json
	mine=$(counters)
	assert_json '[.[].functions[] | [.name, .calls, .returns]] | sort' \
		'[["fix_add",7,7],["fix_fail",40,40],["fix_nested",7,7]]'
	read_as stats g --json
	assert_stderr ""
	assert_eq "$(counters)" "$mine"
	read_as stats --json
	assert_eq "$(counters)" "$mine"
	fsn stats g --hist
	mine=$(tail -n +2 <<<"$output")
	read_as stats g --hist
	assert_eq "$(tail -n +2 <<<"$output")" "$mine"
	fsn stats g --format openmetrics
	# Readers must not see which processes are counted.
	mine=$(grep -v '{group="g",reason="lost_children"}' <<<"$output")
	[[ $mine != "$output" ]]
	read_as stats g --format openmetrics
	assert_output "$mine"
	fsn list functions g
	mine=$output
	read_as list functions g
	assert_output "$mine"
	read_as list --json
	assert_stderr ""
	assert_json '.[] | [.name, .functions, .calls, .stale, .memory_bytes]' \
		'["g",3,54,false,null]'
	# The attaching user is public; the command line may contain secrets.
	assert_json '.[0] | [.filters, .over, .attached_by.command_line, .attached_by.uid >= 0]' \
		'[null,null,null,true]'
	read_as list -v
	assert_output_match '^    link [a-z+]+, exits [a-z+]+; (overhead at most [0-9]+ %; )?attached [^ ]* by [^ ]*, process [0-9]+$'
	read_as stats g --save "/dev/null"
	fsn detach g
}

@test "access: statistics continue during reads" {
	need_readers
	fsn attach g fix_add --lib "$LIB" --owner ":$GID"
	start_bg calls "$FIX/call" --wait-end add 30000
	until grep -q '^done ' "$(bg_out calls)"; do
		read_as stats g --json
		assert_sound
	done
	read_as stats g --json
	assert_json '.[0].functions[0] | [.calls, .returns, .in_flight]' '[30000,30000,0]'
	tell calls
	wait_bg calls
	fsn detach g
}

@test "access: readers cannot see slow calls, arguments and calls in flight" {
	local map

	need_readers
	fsn attach g fix_add fix_hang --lib "$LIB" --owner ":$GID" --slow 0ns
	capture "$FIX/call" --arg 4242 add 3
	start_bg hang "$FIX/call" hang 1
	wait_line hang '^blocked '
	read_as -s 1 stats g --slow
	assert_output ""
	assert_stderr "funcsnoop stats: slow calls of group 'g' are for its owner only
hint: attach the group again with --replace --share 0644,all to share them"
	read_as -s 1 list inflight g
	assert_stderr "funcsnoop list: calls in flight of group 'g' are for its owner only
hint: attach the group again with --replace --share 0644,all to share them"
	read_as -s 1 list inflight g --json
	assert_json .error "calls in flight of group 'g' are for its owner only"
	assert_eq "$(cd "$FOLDER/g" && find . -perm 0640 -type f -printf '%f\n' | sort | xargs)" \
		"base0 base1 base_hist0 base_hist1 base_memory0 base_memory1 base_paths0 base_paths1 base_rows0 base_rows1 codes confs ctl funcs gpus hists keyed_by libs memory meta names path_stats paths procs rows rules_of spreads stats text types" \
		"what readers may read"
	assert_eq "$(find "$FOLDER/g" ! -perm 0640 ! -perm 0600 -type f)" "" "other modes"
	for map in args slots slow comms; do
		obj_get -s 13 "$FOLDER/g/$map" 8
	done
	obj_get "$FOLDER/g/stats" 8
	# Whether their threads still run is the owner's, too.
	read_as stats g --json
	assert_json '[.[].functions[] | [.name, .slow, .in_flight]]' \
		'[["fix_add",3,0],["fix_hang",0,null]]'
	read_as stats g
	assert_output_line 'in flight: at most 1 call; only the owner of the group can see which threads still run'
	tell hang
	wait_bg hang
	fsn detach g
}

@test "in flight: a killed thread's call is not shown as in flight to a reader" {
	need_readers
	fsn attach g fix_hang --lib "$LIB" --owner ":$GID"
	start_bg hang "$FIX/call" hang 1
	wait_line hang '^blocked '
	kill -KILL "$(bg_pid hang)"
	poll_until test ! -e "/proc/$(bg_pid hang)/exe"
	read_as stats g --json
	assert_json '.[0].functions[0] | [.calls, .in_flight]' '[1,null]'
	fsn stats g --json
	assert_json '.[0].functions[0] | [.calls, .in_flight, .abandoned]' '[1,0,1]'
	read_as stats g --json
	assert_json '.[0].functions[0] | [.calls, .in_flight, .abandoned]' '[1,0,1]'
	fsn detach g
}

@test "access: --mode-all lets readers see what the owner sees" {
	local mine

	need_readers
	fsn attach g fix_add fix_hang --lib "$LIB" --owner ":$GID" --mode-all --slow 0ns
	capture "$FIX/call" --arg 4242 add 3
	start_bg hang "$FIX/call" hang 1
	wait_line hang '^blocked '
	fsn stats g --slow --json
	mine=$(counters)
	assert_json '.[0].slow_calls | map(.args.arg1)' '["0x1092","0x1092","0x1092"]'
	read_as stats g --slow --json
	assert_eq "$(counters)" "$mine"
	read_as list inflight g --json
	assert_json '.[] | [.function, .pid]' "[\"fix_hang\",$(bg_pid hang)]"
	assert_eq "$(find "$FOLDER" -perm /022)" "" "what others may write"
	read_as list --json
	assert_json '.[0].memory_bytes > 0' true
	tell hang
	wait_bg hang
	fsn detach g
}

@test "access: readers cannot change a group" {
	local before file

	need_readers
	fsn attach g fix_add --lib "$LIB" --owner ":$GID" --mode-all
	capture "$FIX/call" add 5
	fsn stats g --json
	before=$output
	read_as -s 1 reset g
	assert_stderr_match "^funcsnoop reset: cannot open map 'ctl' of group 'g': Permission denied$"
	assert_stderr_match "^hint: only the group's owner and root may change it$"
	read_as -s 1 stats g --reset
	read_as -s 1 set g --slow 1s
	read_as -s 1 stream g
	assert_output ""
	assert_stderr_match "^funcsnoop stream: .*(Permission denied|Operation not permitted)"
	read_as -s 1 detach g
	assert_stderr "funcsnoop detach: cannot lock '$FOLDER': Permission denied
hint: only root and the owner of '$FOLDER' may"
	read_as -s 1 detach --all
	read_as -s 1 attach q fix_add --lib "$LIB"
	read_as -s 1 attach g fix_add --lib "$LIB" --replace
	for file in "$FOLDER"/g/*; do
		as_reader -s any rm -f "$file"
		[[ -e $file ]] || fail "a reader removed $file"
	done
	as_reader -s any mkdir "$FOLDER/h" "$FOLDER/g/h"
	[[ ! -e $FOLDER/h && ! -e $FOLDER/g/h ]] || fail "a reader made a directory"
	# A descriptor that may write is not given, neither of a map nor of a link.
	for file in "$FOLDER"/g/*; do
		obj_get -s 13 "$file" 0
		obj_get -s 13 "$file" 16
	done
	capture "$FIX/call" add 1
	fsn stats g --json
	assert_json '.[0].functions[0] | [.calls, .slow]' '[6,0]'
	assert_eq "$(json '.[0].since')" "$(output=$before json '.[0].since')"
	fsn detach g
}

@test "access: users outside the user group can read only with a mode for all" {
	need_readers
	fsn attach g fix_add --lib "$LIB" --owner ":$GID"
	READER_GID=64322 read_as -s 1 stats g
	assert_stderr_match "^funcsnoop stats: cannot open '$FOLDER': Permission denied$"
	fsn attach g fix_add --lib "$LIB" --mode 0644 --replace
	READER_GID=64322 read_as stats g --json
	assert_json '.[0].group' g
	# --replace gives what this line says, not what the last one said.
	fsn attach g fix_add --lib "$LIB" --replace
	READER_GID=64322 read_as -s 1 stats g
	assert_stderr "funcsnoop stats: cannot open group 'g': Permission denied
hint: needs root, or a group attached with --share: funcsnoop-attach(8)"
	fsn detach g
}

@test "access: each user group reads its own group, and the other one shows an error" {
	need_readers
	fsn attach one fix_add --lib "$LIB" --owner ":$GID"
	assert_eq "$(modes . one)" ". 750 0 $GID
one 750 0 $GID"
	fsn attach two fix_add --lib "$LIB" --owner ":64322"
	assert_eq "$(modes . one two)" ". 755 0 $GID
one 750 0 $GID
two 750 0 64322"
	read_as stats one --json
	READER_GID=64322 read_as stats two --json
	READER_GID=64322 read_as -s 1 stats one
	assert_stderr_match "cannot open group 'one': Permission denied"
	read_as list --json
	assert_json '.[] | [.name, .functions, .error]' '["one",1,null]
["two",null,"cannot open group '\''two'\'': Permission denied"]'
	fsn detach --all
}

@test "access: an owner reads and changes the group; its directory stays the attacher's" {
	need_readers
	fsn attach g fix_add --lib "$LIB" --owner 65534 --slow 0ns
	assert_eq "$(modes g g/stats g/slow g/link_0)" "g 755 0 0
g/stats 600 65534 0
g/slow 600 65534 0
g/link_0 600 0 0"
	capture "$FIX/call" add 5
	READER_GID=64322 read_as stats g --slow --json
	assert_json '.[0] | [.functions[0].calls, (.slow_calls | length)]' '[5,5]'
	READER_GID=64322 read_as set g --slow off
	capture "$FIX/call" add 2
	READER_GID=64322 read_as stats g --json
	assert_json '.[0].functions[0] | [.calls, .slow]' '[7,5]'
	# A reset waits for the programs with a map of its own, which takes a capability.
	READER_GID=64322 read_as -s 1 reset g
	assert_stderr "funcsnoop reset: cannot reset group 'g': Operation not permitted
hint: resetting also needs CAP_BPF"
	READER_GID=64322 read_as -s 1 detach g
	fsn detach g
}

@test "access: owners read keys; readers also see the statistics by key" {
	need_readers
	fsn attach g fix_add --lib "$LIB" --owner ":$GID" --key arg1 --sum arg1
	capture "$FIX/call" --arg 7,8 add 4
	obj_get -s 13 "$FOLDER/g/keys" 8
	obj_get "$FOLDER/g/rows" 8
	read_as stats g --json
	assert_json '[.[].functions[].rows[] | [.key, .calls, .sums.arg1]]' '[[null,4,30]]'
	read_as stats g --by arg1
	assert_stderr "funcsnoop stats: keys of group 'g' are for its owner only"
	refute_output_match '^fix_add'
	fsn stats g --json
	assert_json '[.[].functions[].rows[] | [.key.arg1.value, .calls, .sums.arg1]] | sort' \
		'[["0x7",2,14],["0x8",2,16]]'
	fsn detach g
}

@test "access: readers see keys that are names of an enumeration, but no other values" {
	local config=$BATS_TEST_TMPDIR/codes.json

	need_readers
	cat >"$config" <<-END
		{ "types": { "code_t": { "base": "int", "codes": { "2": "tyBad", "-1": "tyNegative" } } },
		  "lib": "$FIX/libtyped.so", "g_func_sym": {
			"ty_code": { "symbol": "ty_code", "args": ["code_t v"], "ret": "code_t" } } }
	END
	fsn attach --config "$config" g --owner ":$GID" --key v,thread,result --sum v
	capture "$FIX/typed" ty_code 2 0xffffffff 7 2 9
	read_as stats g --json
	assert_json '[.[].functions[].rows[] | [.key.v.name, .key.v.value, .key.thread, .key.result.name, .calls]] | sort' \
		'[[null,null,null,null,2],["tyBad",2,null,"tyBad",2],["tyNegative",-1,null,"tyNegative",1]]'
	read_as stats g --by v --format csv
	assert_eq "$(tr -d '\r' <<<"$output" | cut -d, -f5,7 | sort)" ",2
tyBad,2
tyNegative,1
v,calls"
	read_as stats g --by thread
	assert_stderr "funcsnoop stats: keys of group 'g' are for its owner only"
	fsn stats g --json
	assert_json '[.[].functions[].rows[] | [.key.v.value, .calls]] | sort' \
		'[[-1,1],[2,2],[7,1],[9,1]]'
	fsn detach g
}

@test "access: reports a bpffs that other users cannot reach" {
	need_readers
	chmod 0700 "$FUNCSNOOP_BPFFS"
	fsn attach g fix_add --lib "$LIB" --owner ":$GID"
	assert_stderr "funcsnoop attach: other users cannot reach the group: '$FUNCSNOOP_BPFFS' has mode 0700; \
run 'chmod o+x $FUNCSNOOP_BPFFS'"
	read_as -s 1 stats g
	assert_stderr_match "cannot open .*: Permission denied"
	chmod o+x "$FUNCSNOOP_BPFFS"
	read_as stats g
	# Search permission is enough; other users do not see the other pins.
	assert_eq "$(stat -c %a "$FUNCSNOOP_BPFFS")" 701
	fsn detach g
}

@test "access: modes that let others write, and unknown users, are wrong usage" {
	local mode

	for mode in 0660 0666 0602 0750 0641 4644 644x rw "" -1; do
		fsn -s 2 attach g fix_add --lib "$LIB" --mode "$mode" --dry-run
		assert_stderr_match "^funcsnoop attach: --share: '$mode' is not a mode|^funcsnoop attach: --share: mode '$mode' gives more than the right to read$"
	done
	for mode in 0600 0640 644 0444 0; do
		fsn attach g fix_add --lib "$LIB" --mode "$mode" --dry-run
	done
	fsn -s 2 attach g fix_add --lib "$LIB" --owner nosuchuser --dry-run
	assert_stderr_match "^funcsnoop attach: --share: there is no user 'nosuchuser'$"
	fsn -s 2 attach g fix_add --lib "$LIB" --owner root:nosuchgroup --dry-run
	assert_stderr_match "^funcsnoop attach: --share: there is no group 'nosuchgroup'$"
	fsn -s 2 attach g fix_add --lib "$LIB" --owner : --dry-run
	fsn -s 2 attach g fix_add --lib "$LIB" --mode-all --dry-run
	assert_stderr_match "^funcsnoop attach: --share all needs a mode or a group: --share 0644,all$"
}

@test "access: an owner that cannot be set leaves nothing attached" {
	need_readers
	# All that attaching needs, but not the right to give away.
	capture -s 1 setpriv --bounding-set -chown "$FUNCSNOOP" attach g fix_add --lib "$LIB" \
		--owner 65534
	assert_stderr_match "^funcsnoop attach: cannot attach group 'g': cannot give others access: "
	assert_stderr_match "CAP_CHOWN"
	fsn list --json
	assert_output '{"version":1,"groups":[]}'
	assert_eq "$(find "$FOLDER" -mindepth 1)" ""
}
