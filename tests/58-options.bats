#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
# Options whose value is a list of parts: good and bad values, and the names that they had before.

# shellcheck disable=SC2154,SC2086 # helpers.bash assigns $stderr; lines are several words

load helpers

@test "options: a wrong part is wrong usage, and the parts are named" {
	local line said

	while IFS='|' read -r line said; do
		fsn -s 2 $line
		assert_output ""
		assert_stderr "funcsnoop ${line%% *}: $said
hint: 'funcsnoop help ${line%% *}' shows the usage"
	done <<-'END'
		attach g f --limit rows=0|--limit rows '0' is not a number from 1 to 1048576
		attach g f --limit rows|--limit is rows=N or allocations=N, not 'rows'
		attach g f --limit rowz=1|--limit is rows=N or allocations=N, not 'rowz=1'
		run g f --limit allocations=1,buffer=1|--limit buffer '1' is not a size from 4K to 1G
		attach g f --with spilt|--with is split or memory, not 'spilt'
		attach g f --with split,|--with is split or memory, not ''
		attach g f --without nesting=1|--without is nesting, processes or correction, not 'nesting=1'
		attach g f --probe exit=x|--probe exit is auto, return, early, ret or none, not 'x'
		attach g f --by stack:some|--by is stack, stack:slow or stack:1/N, not 'stack:some'
		attach g f --by stack:1/0|--by is stack, stack:slow or stack:1/N, not 'stack:1/0'
		attach g f --by none,arg1|--by none cannot be combined with another --by, or --sum
		attach g f --share abc|--share: 'abc' is not a mode such as 0640
		attach g f --share all|--share all needs a mode or a group: --share 0644,all
		attach g f --sample 0hz|--sample '0' is not a number from 1 to 10000
		attach g f --sample 1/0|--sample '0' is not a number from 1 to 2147483648
		attach g f --duration 0|--duration '0' is not between 1 ms and 11 days
		attach g f --pid x+|--pid 'x' is not a number from 1 to 4194304
		attach g f --pid 1+ --if tid==1|threads have no children: --pid PID+ cannot be combined with tid
		attach g f --if comm!=x|--if comm is compared with == only: 'comm==A,B' are alternatives
		attach g f --if pid==x|--if pid 'x' is not a number from 1 to 4194304
		attach g f --if &&pid==1|--if: a term is missing next to &&
		attach g f --if pid==1&&|--if: a term is missing next to &&
		attach g f --if cpu==|--if cpu: a value is missing
		stats --show x|--show is hist, errors, slow or tree, not 'x'
		stats --show hist,errors|--by, --show and --diff exclude each other: one view at a time
		stats --show hist --by fd|--show hist has one histogram per function, not per row of --by: 'run ... --if KEY==VALUE --show hist' has that of one value
		run g f --by process --show hist|--show hist has one histogram per function, not per row of --by: 'run ... --if KEY==VALUE --show hist' has that of one value
		stats --format prometheus:buckets=99|--format buckets '99' is not a number from 1 to 25
		stats --format prometheus:x|--format is buckets=N or path, not 'x'
		stats --format json:path|buckets and path are details of --format prometheus and openmetrics
		stats --top 5x|--top '5x' is not a number above 0
		stats --top 0%|--top '0%' is not from 0.01% to 10000%
		list allocations --top x|--top 'x' is not a size such as 4096, 64K, 1M or 2G
		stream --only x|--only is slow, failed, a duration such as 5ms, or 1/N, not 'x'
		run g f --count --with memory|--with memory needs the returns of calls: not with --count
		run g f --count --show hist|--show hist cannot be combined with --count
	END
}

# Output of list --json for the group without times and command line, and the modes of its
# pins.
group_of() { # ARG...
	fsn attach g fix_add --lib "$FIX/libfix.so" --overhead none --replace "$@"
	fsn list --verbose --json
	jq -c '.[0] | del(.attached_at, .since, .attached_by, .until, .options.command)' <<<"$output"
	stat -c '%n %a %G' "$FUNCSNOOP_BPFFS"/funcsnoop/g/*
}

@test "options: the names of the last version do what the new ones do" {
	local old new one none

	need_bpf
	need_tool jq
	none=$(group_of)
	while IFS='|' read -r old new; do
		one=$(group_of $old)
		assert_eq "$(group_of $new)" "$one" "$old and $new"
		[[ $one != "$none" ]] || fail "$old changes nothing"
	done <<-'END'
		--keys 77 --key arg1|--limit rows=77 --by arg1
		--key arg1,caller|--by arg1,caller
		--stacks python|--by stack
		--stacks slow --slow 1ms|--by stack:slow --slow 1ms
		--stacks 7|--by stack:1/7
		--split|--with split
		--no-processes --no-nesting|--without processes,nesting
		--raw|--without correction
		--sample 5|--sample 1/5
		--comm a|--if comm==a
		--uid 1 --cpu 0|--if uid==1&&cpu==0
		--mode 0644 --mode-all|--share 0644,all
		--owner :daemon|--share :daemon
		--exit ret --link perf --site entry|--probe exit=ret,link=perf,site=entry
	END
	fsn detach g
}

@test "options: --duration of attach ends the group, as --for does" {
	local option

	need_bpf
	for option in "--for 300ms" "--duration 300ms" "-d 0.3"; do
		fsn attach g fix_add --lib "$FIX/libfix.so" $option
		poll_until no_groups
	done
}

no_groups() {
	[[ $("$FUNCSNOOP" list --json | command jq '.groups | length') == 0 ]]
}

@test "options: terms of --if about threads are filters, and the others stay a condition" {
	need_bpf
	need_tool jq
	fsn attach g fix_add --lib "$FIX/libfix.so" --if 'arg1 > 2 && comm == call' --by arg1
	capture "$FIX/call" --arg 3 add 4
	fsn stats g --json
	assert_json '.[0].functions[0].calls' 4
	fsn attach g fix_add --lib "$FIX/libfix.so" --if 'comm == other && arg1 > 2' --replace
	capture "$FIX/call" --arg 3 add 4
	fsn stats g --json --all
	assert_json '.[0].functions[0].calls' 0
	fsn set g --if 'comm==all'
	capture "$FIX/call" --arg 3 add 4
	fsn stats g --json
	assert_json '.[0].functions[0].calls' 4
	fsn detach g
}

@test "options: a preset is found after the name of a group" {
	fsn attach web syscalls --dry-run -p $$ --count
	assert_output_match '^openat '
	fsn attach web syscalls openat read --dry-run -p $$ --count
	assert_eq "$(grep -cE '^(openat|read) ' <<<"$output")" 2
}
