# SPDX-License-Identifier: BSD-2-Clause
# funcsnoop serve: one HTTP request, from friends and from others.
# shellcheck disable=SC2030,SC2031 # each test has its own

load helpers

LIB=$FIX/libfix.so

# A connection as inetd provides it: one socket for all three descriptors. Sends REQUEST, a
# Python list of byte strings, 50 ms apart; with "cut" it then half closes the connection.
# Prints the answer, "reset" if the connection was reset, as may happen to a client that keeps
# sending, and finally "status N" of the command.
ask() { # REQUEST [ARG...]
	need_tool python3
	capture -t 30 python3 -c '
import socket, subprocess, sys, time
ours, theirs = socket.socketpair()
pieces = eval(sys.argv[1])
p = subprocess.Popen([sys.argv[2], "serve", "--inetd"] + sys.argv[3:], stdin=theirs, stdout=theirs,
                     stderr=theirs)
theirs.close()
for i, piece in enumerate(pieces):
    if i:
        time.sleep(0.05)
    if piece == "cut":
        ours.shutdown(socket.SHUT_WR)
    else:
        try:
            ours.sendall(piece)
        except (BrokenPipeError, ConnectionResetError):
            break
got = b""
reset = False
while True:
    try:
        more = ours.recv(65536)
    except ConnectionResetError:
        reset = True
        break
    if not more:
        break
    got += more
sys.stdout.write(got.decode().replace("\r", ""))
if reset:
    print("reset")
ours.close()
print("status", p.wait())' "$1" "$FUNCSNOOP" "${@:2}"
}

get() { # PATH [ARG...]
	ask "[b'GET $1 HTTP/1.1\r\nHost: localhost\r\n\r\n']" "${@:2}"
}

first_is() { # LINE
	assert_eq "${lines[0]}" "$1"
}

@test "serve: without --inetd it is wrong usage, as it has no listener" {
	fsn -s 2 serve
	assert_stderr_match '^funcsnoop serve: .*--inetd'
	fsn -s 2 serve --inetd --timeout x
	assert_stderr_match "^funcsnoop serve: --timeout 'x' is not a number of seconds"
}

@test "serve: exports shared groups, and not even the names of others" {
	local want body

	need_bpf
	cat >"$BATS_TEST_TMPDIR/a.json" <<-END
		{ "open_sym": { "fix_fail": { "symbol": "fix_fail", "ret": "code_t", "args": ["code_t code"] } },
		  "types": { "code_t": { "base": "int", "error": "nonzero", "codes": { "2": "failMemory" } } },
		  "lib": "$LIB" }
	END
	fsn attach --config "$BATS_TEST_TMPDIR/a.json" --mode 0644
	fsn attach private fix_add --lib "$LIB"
	capture "$FIX/call" --arg 2,0 fail 10
	capture "$FIX/call" add 7
	fsn stats open --format prometheus
	want=$(grep 'function=' <<<"$output")
	get /metrics
	assert_eq "$(tail -n 1 <<<"$output")" "status 0"
	body=$(sed '1,/^$/d; $d' <<<"$output")
	assert_eq "$(grep 'function=' <<<"$body")" "$want"
	assert_output_line 'funcsnoop_groups{state="shown"} 1'
	assert_output_line 'funcsnoop_groups{state="left_out"} 1'
	assert_eq "$(sed '/^$/,$d' <<<"$output")" "HTTP/1.1 200 OK
Content-Type: text/plain; version=0.0.4; charset=utf-8
Content-Length: $((${#body} + 1))
Cache-Control: no-store
Connection: close"
	refute_output_match private
	# The same for a group requested by name.
	get /metrics private
	assert_output_match '^HTTP/1.1 500 Internal Server Error$'
	assert_eq "$(tail -n 1 <<<"$output")" "status 1"
	refute_output_match private
	capture -s 1 bash -c 'printf "GET /metrics HTTP/1.0\r\n\r\n" | "$0" serve --inetd private' \
		"$FUNCSNOOP"
	assert_stderr "funcsnoop serve: group 'private' is not shared
hint: attach the group again with --replace --share 0644 to share its numbers"
	fsn detach open private
}

@test "serve: without a shared group the answer is empty, with a warning" {
	need_bpf
	fsn attach private fix_add --lib "$LIB"
	capture bash -c 'printf "GET /metrics HTTP/1.0\r\n\r\n" | "$0" serve --inetd' "$FUNCSNOOP"
	assert_output_match '^HTTP/1.1 200 OK'
	refute_output_match 'private|^funcsnoop_calls_total'
	assert_stderr "funcsnoop serve: group 'private' is not shared
hint: attach the group again with --replace --share 0644 to share its numbers"
	fsn detach private
	get /metrics
	first_is "HTTP/1.1 200 OK"
}

@test "serve: skips a group of another layout, and exports the others" {
	local meta=$FUNCSNOOP_BPFFS/funcsnoop/old/meta

	need_bpf
	need_tool bpftool jq
	fsn attach old fix_ret --lib "$LIB" --mode 0644
	fsn attach new fix_add --lib "$LIB" --mode 0644
	capture "$FIX/call" add 3
	# shellcheck disable=SC2046	# words
	bpftool map update pinned "$meta" key 0 0 0 0 value $(
		bpftool -j map lookup pinned "$meta" key 0 0 0 0 | jq -r '.value[]' |
			sed '1s/.*/0xfe/')
	capture bash -c 'printf "GET /metrics HTTP/1.0\r\n\r\n" | "$0" serve --inetd' "$FUNCSNOOP"
	assert_output_match '^funcsnoop_calls_total\{group="new",function="fix_add",.*\} 3$'
	assert_stderr_match "^funcsnoop serve: group 'old' has layout 254"
	fsn detach new old
}

@test "serve: /healthz reports whether groups can be listed, by GET and HEAD" {
	need_root
	get /healthz
	first_is "HTTP/1.1 200 OK"
	assert_output_line ok
	ask "[b'HEAD /healthz?x HTTP/1.0\n\n']"
	first_is "HTTP/1.1 200 OK"
	assert_output_line "Content-Length: 3"
	refute_output_match '^ok$'
	get /healthz --bpffs /nowhere
	first_is "HTTP/1.1 503 Service Unavailable"
	refute_output_match nowhere
	assert_output_line "status 1"
}

@test "serve: an unsupported request gets the HTTP status of its error" {
	local request want

	while read -r want request; do
		ask "[b'$request HTTP/1.1\r\nHost: x\r\n\r\n']"
		assert_eq "${lines[0]#HTTP/1.1 }" "${want//_/ }" "$request"
		assert_output_line "status 0"
		case $want$request in
		405*/healthz) assert_output_line "Allow: GET, HEAD" ;;
		405*) assert_output_line "Allow: GET" ;;
		esac
	done <<-'END'
		404_Not_Found GET /
		404_Not_Found GET /metrics/
		404_Not_Found GET /../metrics
		404_Not_Found GET /%6detrics
		404_Not_Found POST /x
		405_Method_Not_Allowed POST /metrics
		405_Method_Not_Allowed HEAD /metrics
		405_Method_Not_Allowed DELETE /healthz
		400_Bad_Request GET metrics
		400_Bad_Request GET /metrics x
	END
	ask "[b'POST /metrics HTTP/1.0\r\nContent-Length: 9\r\n\r\nmore than said']"
	first_is "HTTP/1.1 413 Content Too Large"
	ask "[b'\x16\x03\x01\x02\x00\x01\x00\x01\xfc']"
	first_is "HTTP/1.1 400 Bad Request"
}

# Bytes as Python has them: what no client sends, and some do.
@test "serve: binary bytes, HTTP versions and forms of a path get the correct status" {
	local request want

	need_root
	while read -r want request; do
		ask "[b'$request']"
		assert_eq "${lines[0]}" "HTTP/1.1 ${want//_/ }" "$request"
		assert_eq "$(grep -c '^HTTP/1.1 ' <<<"$output")" 1 "answers to $request"
		assert_output_line "status 0"
	done <<-'END'
		400_Bad_Request GET /healthz\r\n
		400_Bad_Request GET /healthz\r\n\r\n
		400_Bad_Request GET /healthz HTTP/0.9\r\n\r\n
		400_Bad_Request GET /healthz HTTP/2.0\r\n\r\n
		400_Bad_Request PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n
		400_Bad_Request OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n
		400_Bad_Request GET /healthz HTTP/1.1\r\n\r\n
		200_OK GET /healthz HTTP/1.9\r\nHost: x\r\n\r\n
		200_OK GET http://x:1/healthz?a=/b HTTP/1.1\r\nHost: x\r\n\r\n
		404_Not_Found GET http://x/ HTTP/1.1\r\nHost: x\r\n\r\n
		404_Not_Found GET //healthz HTTP/1.0\r\n\r\n
		400_Bad_Request GET http://x HTTP/1.1\r\nHost: x\r\n\r\n
		400_Bad_Request GET https://x/healthz HTTP/1.1\r\nHost: x\r\n\r\n
		400_Bad_Request GET /healthz\x00 HTTP/1.0\r\n\r\n
		400_Bad_Request GET /\xc3\xa4 HTTP/1.0\r\n\r\n
		400_Bad_Request GET /\xff HTTP/1.0\r\n\r\n
		400_Bad_Request G\xc8T /healthz HTTP/1.0\r\n\r\n
		400_Bad_Request \xef\xbb\xbfGET /healthz HTTP/1.0\r\n\r\n
		200_OK GET /healthz HTTP/1.0\r\nA: \xc3\xa4 \xff \x80\r\n\r\n
		400_Bad_Request GET /healthz HTTP/1.0\r\nA: \x00\r\n\r\n
		400_Bad_Request GET /healthz HTTP/1.0\r\nA: b\rC: d\r\n\r\n
		400_Bad_Request GET /healthz HTTP/1.0\r\n\xff: b\r\n\r\n
		400_Bad_Request GET /healthz HTTP/1.0\r\n folded\r\n\r\n
		405_Method_Not_Allowed get /healthz HTTP/1.0\r\n\r\n
	END
	ask "[b'GET /healthz HTTP/1.0\r\nA: ' + b'a' * 8100 + b'\r\n\r\n']"
	first_is "HTTP/1.1 200 OK"
	ask "[b'GET /healthz HTTP/1.0\r\n' + b'A: b\r\n' * 2000 + b'\r\n']"
	first_is "HTTP/1.1 431 Request Header Fields Too Large"
	ask "[b'GET /' + b'a' * 9000 + b' HTTP/1.0\r\n\r\n']"
	first_is "HTTP/1.1 431 Request Header Fields Too Large"
}

@test "serve: pipelined requests after the first have no answer and do no harm" {
	local healthz='GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n' again

	need_root
	for again in "[b'$healthz' * 2]" "[b'$healthz' * 2000]" "[b'$healthz', b'$healthz' * 100]" \
		"[b'$healthz', 'cut']" "[b'$healthz' * 2000, 'cut']"; do
		ask "$again"
		assert_output "HTTP/1.1 200 OK
Content-Type: text/plain; version=0.0.4; charset=utf-8
Content-Length: 3
Cache-Control: no-store
Connection: close

ok
status 0"
	done
}

# A body would be read as the start of the next answer.
@test "serve: an answer to HEAD has no body, also if it is an error" {
	local path

	need_root
	for path in healthz metrics nowhere; do
		ask "[b'HEAD /$path HTTP/1.1\r\nHost: x\r\n\r\n']"
		assert_output_match '^Content-Length: [1-9]'
		assert_eq "$(sed '1,/^$/d' <<<"$output")" "status 0"
	done
}

@test "serve: slow, truncated, huge and endless requests end in time" {
	ask "[b'GET /hea', b'lthz HTTP/1.0\r', b'\n\r', b'\n']"
	first_is "HTTP/1.1 200 OK"
	ask "[b'GET /metrics HT']" --timeout 0.2
	first_is "HTTP/1.1 408 Request Timeout"
	assert_output_line "status 0"
	ask "[b'G'] * 40" --timeout 0.2
	first_is "HTTP/1.1 408 Request Timeout"
	# One byte in time again and again is late as a whole.
	ask "[b'GET /healthz HTTP/1.0\r\nA: '] + [b'a'] * 40" --timeout 0.3
	first_is "HTTP/1.1 408 Request Timeout"
	ask "[b'GET /metrics HTTP/1.0\r\n', 'cut']"
	assert_output "status 0"
	ask "['cut']"
	assert_output "status 0"
	# All of it is sent before an answer is read, and the answer is not lost for that.
	ask "[b'GET / HTTP/1.0\r\nA: ' + b'a' * 100000]"
	first_is "HTTP/1.1 431 Request Header Fields Too Large"
	refute_output_match '^reset$'
	ask "[b'a: b\r\n' * 1000000]"
	first_is "HTTP/1.1 400 Bad Request"
}

# The pipe has room for a page, and the answer is longer than that.
@test "serve: a client that does not read its answer blocks nothing" {
	need_bpf
	need_tool python3
	fsn attach g 'fix_*' --lib "$LIB" --mode 0644
	capture "$FIX/call" add 3
	capture "$FIX/call" nested 3
	capture -t 20 python3 -c '
import fcntl, os, subprocess, sys
r, w = os.pipe()
fcntl.fcntl(w, fcntl.F_SETPIPE_SZ, 4096)
p = subprocess.run([sys.argv[1], "serve", "--inetd", "--timeout", "0.3"], stdout=w,
                   input=b"GET /metrics HTTP/1.0\r\n\r\n")
print(p.returncode, 0 < len(os.read(r, 10000)) <= 4096)' "$FUNCSNOOP"
	assert_output "1 True"
	fsn detach g
}

free_port() {
	python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

fetch() { # PORT PATH
	python3 -c 'import sys, urllib.request
sys.stdout.write(urllib.request.urlopen(f"http://127.0.0.1:{sys.argv[1]}{sys.argv[2]}",
                                        timeout=10).read().decode())' "$@"
}

@test "serve: systemd's socket activation starts it for each connection" {
	local port

	need_bpf
	need_tool systemd-socket-activate python3
	fsn attach g fix_add --lib "$LIB" --mode 0644
	capture "$FIX/call" add 3
	port=$(free_port)
	start_bg socket systemd-socket-activate -a --inetd -l "127.0.0.1:$port" \
		-E FUNCSNOOP_BPFFS="$FUNCSNOOP_BPFFS" "$FUNCSNOOP" serve --inetd
	poll_until -t 20 fetch "$port" /healthz
	output=$(fetch "$port" /metrics)
	assert_output_match '^funcsnoop_calls_total\{group="g",function="fix_add",.*\} 3$'
	capture "$FIX/call" add 4
	output=$(fetch "$port" /metrics)
	assert_output_match '^funcsnoop_calls_total\{group="g",function="fix_add",.*\} 7$'
	stop_bg socket
	fsn detach g
}

@test "serve: systemd accepts the units" {
	local dir=$BATS_TEST_TMPDIR/units unit

	need_tool systemd-analyze
	mkdir "$dir"
	for unit in "$BATS_TEST_DIRNAME"/../man/examples/*.{socket,service,timer}; do
		sed "s|/usr/local/bin/funcsnoop|$FUNCSNOOP|" "$unit" >"$dir/${unit##*/}"
	done
	# Missing manual pages on this machine do not matter.
	capture -s any systemd-analyze verify --man=no --recursive-errors=no "$dir"/*.socket \
		"$dir"/*.timer "$dir/funcsnoop@1.service" "$dir/funcsnoop-attach.service"
	assert_eq "$(grep -F "$dir" <<<"$stderr")" "" "remarks"
}
