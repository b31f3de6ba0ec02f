# SPDX-License-Identifier: BSD-2-Clause
# funcsnoop list: groups, functions and presets.
# bats file_tags=bpf

load helpers

LIB=$FIX/libfix.so
REAL=$FIX/libfix.so.1

@test "list: shows each group, with its columns in order" {
	need_link session
	fsn list
	assert_output ""
	assert_stderr "funcsnoop list: nothing is attached"
	fsn attach b fix_add fix_ret --lib "$LIB" --exit ret
	fsn attach a eng_leaf --lib "$FIX/libengine.so" --exit return
	capture "$FIX/call" add 12
	fsn list
	assert_stderr ""
	assert_eq "$(tr -s ' ' <<<"${lines[0]}" | sed 's/ MEMORY//')" \
		"NAME LIBRARY FUNCTIONS LINK EXITS SINCE CALLS COST"
	assert_output_match "^a +$FIX/libengine.so +1 +session +return +[0-9-]+T[0-9:]+Z +0 "
	assert_output_match "^b +$REAL +2 +multi +ret +[0-9-]+T[0-9:]+Z +12 "
	assert_eq "${lines[1]%% *} ${lines[2]%% *}" "a b"
	fsn list b
	assert_eq "${#lines[@]}" 2
	fsn detach a b
}

# Cost of one more group: maps opened, and bpf(2) calls except lookups, of which a function
# needs one per shard.
calls_of_one_more() { # COMMAND...
	local trace=$BATS_TEST_TMPDIR/trace
	local -a cnt gets

	for group in "" g2; do
		[[ ! $group ]] || fsn attach g2 fix_add fix_ret --lib "$LIB"
		capture "$FIX/call" add 12
		capture strace -f -qq -o "$trace" -e trace=bpf "$FUNCSNOOP" "$@"
		cnt+=("$(grep 'bpf(' "$trace" | grep -vc 'MAP_LOOKUP_ELEM')")
		gets+=("$(grep 'BPF_OBJ_GET,' "$trace" | grep -vc '/link_')")
	done
	((more = cnt[1] - cnt[0], more_gets = gets[1] - gets[0]))
}

# A machine may have a thousand groups.
@test "list: list and stats use a bounded number of maps and system calls for each group" {
	local more more_gets all links

	need_tool strace
	need_no_sanitizer
	need_bpf
	fsn attach g fix_add fix_ret --lib "$LIB"
	all=$(find "$FUNCSNOOP_BPFFS/funcsnoop/g" -type f ! -name 'link_*' ! -name breaks | wc -l)
	((all > 40)) || fail "$all maps"
	links=$(find "$FUNCSNOOP_BPFFS/funcsnoop/g" -name 'link_*' | wc -l)
	calls_of_one_more list --json
	assert_json 'map([.functions, .memory_bytes > 0, .error]) | unique' '[[2,true,null]]'
	assert_between "$more_gets" 5 12 "maps opened by list"
	assert_between "$more" 10 $((30 + links * 8)) "bpf(2) by list"
	fsn detach g2
	calls_of_one_more stats --json
	assert_between "$more_gets" 5 18 "maps opened by stats"
	assert_between "$more" 10 $((36 + links * 12)) "bpf(2) by stats"
	fsn detach g g2
}

@test "list: not all of many groups have open descriptors at once" {
	local i want

	need_bpf
	for i in 1 2 3 4 5 6; do
		fsn attach "g$i" fix_add fix_ret --lib "$LIB" --key arg1
	done
	capture "$FIX/call" add 12
	for want in "list --json" "stats --json" "stats --format openmetrics" "stats --by arg1"; do
		# shellcheck disable=SC2086	# words
		capture bash -c 'ulimit -n 40; exec "$@"' - "$FUNCSNOOP" $want
		[[ $want != *json ]] || assert_json 'length' 6
		assert_eq "$stderr" ""
	done
	fsn stats --json
	assert_json 'map(.functions[] | select(.name == "fix_add").calls)' '[12,12,12,12,12,12]'
	capture bash -c 'ulimit -n 40; exec "$@"' - "$FUNCSNOOP" reset
	fsn stats --json
	assert_json 'map(.functions)' '[[],[],[],[],[],[]]'
	capture "$FIX/call" add 12
	# A reset reads all groups before it resets one: it must keep its descriptors open.
	capture bash -c 'ulimit -n 200; exec "$@"' - "$FUNCSNOOP" stats --reset --json
	assert_json 'map(.functions[] | select(.name == "fix_add").calls)' '[12,12,12,12,12,12]'
	fsn stats --json
	assert_json 'map(.functions)' '[[],[],[],[],[],[]]'
	capture -s 1 bash -c 'ulimit -n 22; exec "$@"' - "$FUNCSNOOP" stream
	assert_stderr_match "^funcsnoop stream: cannot stream group 'g[1-6]': Too many open files
hint: a process may open 22 files \('ulimit -Hn'\): stream fewer groups$"
	start_bg watch bash -c 'ulimit -n 120; exec "$@"' - "$FUNCSNOOP" stream -n 12 --json
	poll_until grep -q ' of 6 groups' "$(bg_err watch)"
	capture "$FIX/call" add 2
	wait_bg watch
	assert_eq "$(grep -v '^#' "$(bg_out watch)" | jq -rs 'map(.group) | group_by(.) |
		map("\(.[0]) \(length)") | join(" ")')" "g1 2 g2 2 g3 2 g4 2 g5 2 g6 2"
	fsn detach --all
}

@test "list: a narrow terminal keeps the end of paths, and prints a long last column below" {
	need_bpf
	need_terminal
	fsn attach g fix_add --lib "$LIB" --exit ret
	capture env LC_ALL=C.UTF-8 script -qec "stty cols 80; '$FUNCSNOOP' list functions g" /dev/null
	assert_output_match "^fix_add +….*libfix.so.1 .* ret.?$"
	assert_output_match "^    --probe exit=ret; 1 ret, 0 jumps that leave.?$"
	assert_eq "$(sed 's/\r//g' <<<"$output" | awk 'length > 88')" "" "lines that are too long"
	capture script -qec "stty cols 80; '$FUNCSNOOP' list functions g" /dev/null
	assert_output_match "^fix_add +\.\.\..*fix.so.1 .* ret.?$"
	assert_eq "$(LC_ALL=C tr -d '\000-\177' <"$BATS_TEST_TMPDIR/.out")" "" "not ASCII with LC_ALL=C"
	fsn detach g
}

@test "list: -v shows which calls count, how, until when, and the command line" {
	local pid

	need_bpf
	start_bg call "$FIX/call" --wait add 1
	wait_ready call
	pid=$(bg_pid call)
	fsn attach v fix_add --lib "$LIB" --pid "$pid" --comm call --uid 0 --cpu 0 --sample 3 \
		--if 'arg1 > 2' --for 3600s --raw --exit ret
	assert_stderr ""
	fsn list -v
	assert_eq "${#lines[@]}" 3
	assert_eq "$(sed 's/ until [^;]*;//; s/attached [^ ]* by [^ ]*, process [0-9]*:/attached/' \
		<<<"${lines[2]}")" "$(echo "    link $(json_link v), exits ret; one call of 3 is timed;" \
		"times are raw; overhead at most 10 %; only process $pid; only user 0; only command call; only CPU 0;" \
		"if arg1 > 2; attached $FUNCSNOOP attach v fix_add --lib $LIB --pid $pid" \
		"--comm call --uid 0 --cpu 0 --sample 3 --if 'arg1 > 2' --for 3600s --raw --exit ret")"
	assert_output_match '; until 20[0-9-]+T[0-9:]+Z; attached 20[0-9-]+T[0-9:]+Z by [^ ]*, process [0-9]+: '
	fsn list --json
	assert_json '.[0].filters' "{\"cgroups\":[],\"children\":false,\"comms\":[\"call\"],\"condition\":\"arg1 > 2\",\"cpus\":[0],\"ended\":[],\"lost_children\":0,\"pids\":[$pid],\"tids\":[],\"uids\":[0]}"
	assert_json '.[0] | [.options.sample, .options.raw, .over]' \
		'[3,true,false]'
	assert_json '.[0].attached_by.command_line[1:4]' '["attach","v","fix_add"]'
	assert_json_true '(.[0].until | fromdate) - (.[0].attached_at | fromdate) | . >= 3598 and . <= 3602'
	fsn set v --comm all --if all
	fsn list v --json
	assert_json '.[0].filters | [.comms, .condition, .uids]' '[[],null,[0]]'
	tell call
	wait_bg call
	fsn detach v
	fsn -s 2 list presets -v
	fsn -s 2 list functions v -v
}

json_link() { # GROUP
	"$FUNCSNOOP" list "$1" --json | jq -r '.[0].link'
}

@test "list: list and stats report processes of a group that have exited" {
	local one two

	need_bpf
	start_bg one "$FIX/call" --wait add 3
	start_bg two "$FIX/call" --wait add 4
	wait_ready one
	wait_ready two
	one=$(bg_pid one) two=$(bg_pid two)
	fsn attach g fix_add --lib "$LIB" --pid "$one"
	fsn attach h fix_add --lib "$LIB" --pid "$one" --pid "$two"
	fsn attach c fix_add --lib "$LIB" --pid "$two" --children
	fsn list
	assert_stderr ""
	tell one
	wait_bg one
	fsn list
	assert_stderr "funcsnoop list: process $one, the only one of group 'g', has ended"
	fsn list h --json
	assert_json '.[0] | [.filters.pids, .filters.ended, .over]' \
		"[$(printf '%s\n' "$one" "$two" | sort -n | jq -cs "sort_by(. != $one)"),[$one],false]"
	fsn stats g
	assert_stderr "funcsnoop stats: process $one, the only one of group 'g', has ended"
	assert_output_match '^fix_add +3 '
	fsn stats g --json
	assert_json '.[0] | [.over, .health.lost_children]' '[true,0]'
	tell two
	wait_bg two
	fsn list h
	assert_stderr "funcsnoop list: the 2 processes of group 'h' have ended"
	fsn list -v h
	assert_output_match "; only process ($one $two|$two $one) \\(ended\\); attached"
	fsn stats c
	assert_stderr "funcsnoop stats: the processes of group 'c', and what they have started, have ended"
	fsn stats h --by process
	assert_output_match "^ *$one +call +ended "
	fsn detach --all
}

@test "list: reports children dropped because the list of processes was full" {
	need_bpf
	need_tool bpftool
	start_bg one "$FIX/call" --wait add 3
	wait_ready one
	fsn attach c fix_add --lib "$LIB" --pid "$(bg_pid one)" --children
	bpftool map update pinned "$FUNCSNOOP_BPFFS/funcsnoop/c/pids" key 0 0 0 0 value 2 0 0 0
	fsn stats c
	assert_stderr_match "^funcsnoop stats: calls of 2 children are not counted: too many ran at once$"
	fsn stats c --json
	assert_json '.[0].health.lost_children' 2
	fsn list c --json
	assert_json '.[0].filters | [.children, .lost_children, .pids]' "[true,2,[$(bg_pid one)]]"
	tell one
	wait_bg one
	fsn detach c
}

@test "attach: warns about a process that does not map the library" {
	need_bpf
	start_bg engine "$FIX/engine" block 1
	wait_line engine '^blocked '
	fsn attach g fix_add --lib "$LIB" --pid "$(bg_pid engine)"
	assert_stderr "funcsnoop attach: process $(bg_pid engine) does not map $REAL: nothing of it is counted until it does"
	assert_output_match ", mapped by 0 processes$"
	tell engine
	wait_bg engine
	fsn detach g
}

@test "list: --json has all keys, with their types" {
	need_bpf
	fsn list --json
	assert_output '{"version":1,"groups":[]}'
	fsn attach g fix_add fix_ret --exit ret --lib "$LIB" --lib "$FIX/stripped/libfix.so.1"
	capture "$FIX/call" add 12
	fsn list --json
	assert_json '["name","libraries","functions","link","exits","attached_at","since","calls","cost_ns_per_s","memory_bytes","stale"]
		- (.[0] | keys)' '[]'
	assert_json '.[0] | [.name, .libraries, .functions, .exits, .calls, .stale]' \
		"[\"g\",[\"$REAL\",\"$FIX/stripped/libfix.so.1\"],4,\"ret\",12,false]"
	assert_json '.[0] | [.attached_at, .since, .memory_bytes, .link, .cost_ns_per_s]
		| map(type) | .[4] |= (. == "null" or . == "number")' \
		'["string","string","number","string",true]'
	# The kernel's figure for each map, except the one reserved for data of killed
	# commands.
	assert_json '.[0].memory_bytes' "$(for pin in "$FUNCSNOOP_BPFFS"/funcsnoop/g/*; do
		[[ $pin == */breaks ]] || bpftool -j map show pinned "$pin" 2>/dev/null
	done | jq -s 'map(.bytes_memlock // 0) | add')"
	fsn -s 1 list nosuch --json
	assert_json .error 'no group '\''nosuch'\'' is attached'
	fsn detach g
}

# --- a library that was replaced ---------------------------------------------------------

@test "list: a replaced library is stale, and calls of the new file are not counted" {
	local lib=$BATS_TEST_TMPDIR/libcopy.so

	need_bpf
	cp "$REAL" "$lib"
	fsn attach g fix_add --lib "$lib"
	fsn attach other fix_add --lib "$LIB"
	start_bg old "$FIX/dlcall" "$lib" fix_add 10 --wait
	wait_ready old
	capture "$FIX/dlcall" "$lib" fix_add 10
	fsn list --json
	assert_json 'map([.name, .stale])' '[["g",false],["other",false]]'
	cp "$REAL" "$lib.new"
	mv "$lib.new" "$lib"
	fsn list --json
	assert_json 'map([.name, .stale, .calls])' '[["g",true,10],["other",false,0]]'
	fsn list
	assert_output_match "^g +STALE "
	refute_output_match "^other +STALE"
	fsn stats
	assert_stderr_match "$lib is another file now, is gone or was rewritten: attach again"
	refute_stderr_match "$LIB is another file"
	capture "$FIX/dlcall" "$lib" fix_add 10
	assert_numbers g "fix_add 10 0 10 0 0 0"
	fsn attach g fix_add --lib "$lib" --replace
	capture "$FIX/dlcall" "$lib" fix_add 3
	assert_numbers g "fix_add 3 0 3 0 0 0"
	fsn list g --json
	assert_json '.[0].stale' false
	tell old
	wait_bg old
	rm "$lib"
	fsn list g --json
	assert_json '.[0].stale' true
	fsn detach g other
}

@test "list: a program that has the library mapped before the attach is counted" {
	local lib=$BATS_TEST_TMPDIR/libcopy.so

	need_bpf
	cp "$REAL" "$lib"
	start_bg old "$FIX/dlcall" "$lib" fix_add 10 3 --fifo "$BATS_TEST_TMPDIR/old.in" --wait
	wait_ready old
	fsn attach g fix_add --lib "$lib"
	tell old
	wait_bg old
	assert_output_match "^result fix_add calls=30 "
	assert_numbers g "fix_add 30 0 30 0 0 0"
	fsn detach g
}

# --- functions ---------------------------------------------------------------------------

@test "list functions: shows probed functions with offset, site, exit and reason" {
	need_bpf
	fsn attach g fix_add fix_ret --lib "$LIB"
	fsn list functions g
	assert_eq "$(tr -s ' ' <<<"${lines[0]}")" \
		"FUNCTION LIBRARY OFFSET SITE INSTRUCTION EXIT WHY"
	assert_output_match "^fix_add +$REAL +0x[0-9a-f]+ +\+0 .* (ret|return) +[a-z]"
	assert_eq "${#lines[@]}" 3
	fsn list functions g --json
	assert_json 'map([.group, (.functions | map(.name))])' '[["g",["fix_add","fix_ret"]]]'
	assert_json '.[0].functions[0] | [.offset, .site_offset] | map(type)' '["number","number"]'
	fsn -s 1 list functions nosuch
	fsn -s 2 list functions
	assert_stderr_match "^funcsnoop list: functions of which group\?$"
	fsn detach g
}

@test "list functions: shows other names of a function" {
	local aliases='[{"also":["fix_alias_b"],"name":"fix_alias_a"}]'

	need_bpf
	fsn attach g fix_add fix_alias_a --lib "$LIB" --json
	assert_json '.[0].aliases' "$aliases"
	fsn list functions g --json
	assert_json '.[0].aliases' "$aliases"
	fsn list functions g
	assert_output_match "^fix_add +$REAL "
	assert_output_match "^fix_alias_a \(fix_alias_b\) +$REAL "
	fsn detach g
	fsn attach g fix_add --lib "$LIB"
	fsn list functions g --json
	assert_json '.[0].aliases' '[]'
	fsn detach g
}

@test "list functions: shows why a function is only counted" {
	need_bpf
	fsn attach g eng_exit eng_leaf --lib "$FIX/libengine.so" --exit ret
	fsn list functions g --json
	assert_json '.[0].functions | map([.name, .exit]) | sort' \
		'[["eng_exit","none"],["eng_leaf","ret"]]'
	assert_json '.[0].functions[] | select(.name == "eng_exit").exit_why | length > 10' true
	fsn detach g
}

# --- presets -----------------------------------------------------------------------------

@test "list presets: shows the built-in ones" {
	fsn list presets --json
	assert_json 'map(.name)' \
		'["cpu","cublas","cublaslt","cuda","cuda-driver","cudnn","curl","dns","files","gpu","gpu-copies","gpu-graphs","hip","ibverbs","level-zero","libtorch","locks","malloc","mpi","nccl","nvtx","off-cpu","opencl","openssl","postgres","pthread","run-queue","sqlite","syscalls","tensors","vfs","zlib"]'
	assert_json '.[0] | keys_unsorted' '["name","description","origin","functions","error"]'
	assert_json 'map((.functions > 15 or (.name | IN("dns", "malloc", "tensors", "gpu", "gpu-copies", "gpu-graphs", "nvtx", "vfs", "cpu", "off-cpu", "run-queue", "locks"))) and .origin == "built in" and .error == null) | all' true
	fsn list presets
	assert_eq "$(tr -s ' ' <<<"${lines[0]}")" "NAME FUNCTIONS FROM DESCRIPTION"
	assert_output_match "^cuda +[0-9]+ +built in +"
	assert_eq "${#lines[@]}" 33
	fsn -s 2 list presets x
}

@test "list presets: a user's preset replaces a built-in one, and a broken one is shown" {
	local dir=$XDG_CONFIG_HOME/funcsnoop/presets

	mkdir -p "$dir"
	echo '{ "mine_sym": { "fix_add": "fix_add" }, "description": "my own" }' >"$dir/mine.json"
	echo '{ "nccl_sym": { "ncclSend": "ncclSend" } }' >"$dir/nccl.json"
	echo '{ nonsense' >"$dir/broken.json"
	fsn list presets --json
	assert_json '.[] | select(.name == "mine") | [.functions, .description, .origin, .error]' \
		"[1,\"my own\",\"$dir/mine.json\",null]"
	assert_json '.[] | select(.name == "nccl") | [.functions, .origin]' "[1,\"$dir/nccl.json\"]"
	assert_json '.[] | select(.name == "broken") | [.functions, (.error | type)]' \
		'[null,"string"]'
	fsn attach mine --dry-run --lib "$LIB" --json
	assert_json '.[0] | [.group, .functions[0].name]' '["mine","fix_add"]'
	rm -r "$dir"
}
