# SPDX-License-Identifier: BSD-2-Clause
# Presets of Debian's libraries: calls, bytes, codes and texts of programs that count their own.
# bats file_tags=bpf

load helpers

PYTHON=/usr/bin/python3 # that of the distribution, which uses its libraries

setup() {
	common_setup
	need_bpf
	need_tool jq
	cd "$BATS_TEST_TMPDIR" || return
}

need_library() { # SONAME...
	local name

	for name; do
		compgen -G "/usr/lib/*-linux-gnu/$name" >/dev/null || skip "needs $name"
	done
}

# Runs COMMAND with the calls of a preset counted: $said is its output, $output the statistics.
# Return probes are used for any signal handlers of other processes with the library.
traced() { # PRESET COMMAND...
	fsn -s "${ENDS_WITH-0}" run "$1" --overhead none --no-children \
		--probe exit=return --json -o run.json -- "${@:2}"
	said=$output
	output=$(<run.json)
}

# The calls of FUNCTION, or more of it: [EXPR, ...].
of() { # FUNCTION EXPR
	jq -c --arg name "$1" "(.groups? // .)[0].functions[] | select(.name == \$name) | [$2]" <<<"$output"
}

# The program's own count of NAME.
counted() { # NAME
	sed -n "s/^$1 //p" <<<"$said"
}

# --- openssl ------------------------------------------------------------------------------

make_key() {
	need_tool openssl
	openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 \
		-subj /CN=localhost 2>/dev/null
}

@test "openssl: handshakes, bytes and refused calls are those that the program counts" {
	need_library libssl.so.3
	need_tool "$PYTHON"
	make_key
	cat >tls.py <<-'END'
		import collections, ssl

		n = collections.Counter()
		server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
		server.load_cert_chain('cert.pem', 'key.pem')
		client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
		client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
		a, b = ssl.MemoryBIO(), ssl.MemoryBIO()
		ends = [client.wrap_bio(a, b), server.wrap_bio(b, a, server_side=True)]

		def tries(what, call):
		    n[what] += 1
		    try:
		        return call()
		    except ssl.SSLWantReadError:
		        n[what + '_waits'] += 1
		        return what

		left = list(ends)
		while left:
		    left = [e for e in left if tries('handshakes', e.do_handshake)]
		for size in (1, 100, 16384, 50000):
		    n['writes'] += 1
		    n['written'] += ends[0].write(b'x' * size)
		while n['read'] < n['written']:
		    n['read'] += len(tries('reads', lambda: ends[1].read(7000)))
		tries('reads', lambda: ends[1].read(1))
		for what in n:
		    print(what, n[what])
	END
	traced openssl "$PYTHON" tls.py
	assert_eq "$(of SSL_do_handshake .calls,.errors)" \
		"[$(counted handshakes),$(counted handshakes_waits)]"
	assert_eq "$(of SSL_write_ex '.calls, .errors, .rows[0].sums.bytes')" \
		"[$(counted writes),0,$(counted written)]"
	assert_eq "$(of SSL_read_ex '.calls, .errors, .rows[0].sums.bytes')" \
		"[$(counted reads),$(counted reads_waits),$(counted read)]"
	assert_eq "$(of SSL_get_error .calls,.errors)" \
		"[$(($(counted handshakes_waits) + $(counted reads_waits))),0]"
}

@test "openssl: s_client and s_server exchange the bytes of a file, and reject a certificate" {
	local server

	need_library libssl.so.3
	make_key
	yes | head -c 300000 >data
	start_bg server openssl s_server -quiet -unix tls -cert cert.pem -key key.pem -naccept 2
	server=$(bg_pid server)
	poll_until test -S tls
	fsn attach openssl -p "$server" --overhead none
	# It ends with the file, whose name has no meaning to it.
	capture sh -c 'exec openssl s_client -quiet -no_ign_eof -unix tls <data'
	poll_until cmp -s data "$(bg_out server)"
	fsn stats openssl --json
	assert_eq "$(of SSL_read '.rows[0].sums.bytes')" "[300000]"
	fsn detach openssl
	echo >data
	ENDS_WITH=1 traced openssl sh -c 'exec openssl s_client -verify_return_error -unix tls <data'
	assert_eq "$(of SSL_get_error '.return_codes[].name')" '["SSL_ERROR_SSL"]'
	assert_eq "$(of ERR_get_error_all '(.return_codes[] | .name, .count)')" \
		'["SSL_R_CERTIFICATE_VERIFY_FAILED",1]'
	assert_eq "$(of SSL_get_verify_result '(.return_codes[] | .name)')" \
		'["X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT"]'
}

# --- sqlite, zlib, curl, dns, pthread --------------------------------------------------------

# A call by ctypes is counted by the program itself, under the name of the function.
counting() { # SONAME PROGRAM
	need_library "$1"
	need_tool "$PYTHON"
	cat - "$2" >program.py <<-END
		import collections, ctypes, sys

		n, library = collections.Counter(), ctypes.CDLL("$1")

		def call(name, *args):
		    n[name] += 1
		    return getattr(library, name)(*args)
	END
	echo 'for name in n: print(name, n[name])' >>program.py
}

@test "sqlite: statements have their text, and results their names" {
	cat >program <<-'END'
		db, statement = ctypes.c_void_p(), ctypes.c_void_p()
		call('sqlite3_open', b':memory:', ctypes.byref(db))
		for text in (b"values ('more than thirty-one bytes')", b'select abs(-9223372036854775808)',
		             b'select abs(-9223372036854775808)'):
		    call('sqlite3_exec', db, text, None, None, None)
		for _ in range(3):
		    call('sqlite3_prepare_v2', db, b'values (1), (2)', -1, ctypes.byref(statement), None)
		    while call('sqlite3_step', statement) == 100:
		        pass
		    call('sqlite3_finalize', statement)
		call('sqlite3_prepare_v2', db, b'select nothing', -1, ctypes.byref(statement), None)
		call('sqlite3_close', db)
	END
	counting libsqlite3.so.0 program
	traced sqlite "$PYTHON" program.py
	# exec steps through four results, too.
	assert_eq "$(of sqlite3_step '.calls, .errors, (.return_codes[] | .name, .count)')" \
		"[$(($(counted sqlite3_step) + 4)),2,\"SQLITE_ERROR\",2]"
	assert_eq "$(of sqlite3_exec '.calls, .errors, ([.rows[] | [.key.sql.value, .calls]] | sort)')" \
		'[3,2,[["select abs(-9223372036854775808",2],["values ('\''more than thirty-one b",1]]]'
	assert_eq "$(of sqlite3_prepare_v2 '.errors, (.rows[] | select(.key.zSql.value == "values (1), (2)")
		| .calls)')" "[1,3]"
	need_tool sqlite3
	traced sqlite sqlite3 -batch :memory: 'select 1' 'select 2'
	assert_eq "$said" "1
2"
	assert_eq "$(of sqlite3_prepare_v2 '[.rows[] | select(.key.zSql.value | test("^select [12]$")) | .calls]')" \
		"[[1,1]]"
}

@test "zlib: sums bytes of checksums, files and compressed data, and counts bad data" {
	cat >program <<-'END'
		import zlib

		data = bytes(100000)
		size = ctypes.c_ulong(200000)
		packed, out = ctypes.create_string_buffer(200000), ctypes.create_string_buffer(200000)
		call('compress', packed, ctypes.byref(size), data, ctypes.c_ulong(len(data)))
		packed_size = size.value
		size.value = 200000
		call('uncompress', out, ctypes.byref(size), packed, ctypes.c_ulong(packed_size))
		size.value = 200000
		call('uncompress', out, ctypes.byref(size), b'nothing', ctypes.c_ulong(7))
		library.gzopen.restype = ctypes.c_void_p
		for mode in (b'wb', b'rb'):
		    file = ctypes.c_void_p(call('gzopen', b'file.gz', mode))
		    if mode == b'wb':
		        call('gzwrite', file, data, 70000)
		    else:
		        for _ in range(3):
		            call('gzread', file, out, 50000)
		    call('gzclose', file)
		print('packed', packed_size)
	END
	counting libz.so.1 program
	traced zlib "$PYTHON" program.py
	assert_eq "$(of compress '.calls, .errors, .rows[0].sums.bytes')" "[1,0,100000]"
	assert_eq "$(of uncompress '.calls, .errors, .rows[0].sums.bytes, .return_codes[].name')" \
		'[2,1,100000,"Z_DATA_ERROR"]'
	assert_eq "$(of gzwrite '.calls, .rows[0].sums.bytes')" "[1,70000]"
	assert_eq "$(of gzread '.calls, .errors, .rows[0].sums.bytes')" "[3,0,70000]"
	cat >program <<-'END'
		# The upper half of a register is not the argument's.
		library.crc32.argtypes = [ctypes.c_ulong, ctypes.c_char_p, ctypes.c_ulong]
		call('crc32', 0, bytes(1000), 0x700000000 + 1000)
		call('crc32', 0, bytes(1000), 500)
	END
	counting libz.so.1 program
	traced zlib "$PYTHON" program.py
	assert_eq "$(of crc32 '.calls, .rows[0].sums.bytes')" "[2,1500]"
}

@test "curl: a transfer of a file, and one that fails, with its code" {
	need_library libcurl.so.4
	need_tool curl
	echo text >file
	ENDS_WITH=37 traced curl curl -s "file://$PWD/file" "file://$PWD/nothing"
	assert_eq "$said" text
	assert_eq "$(of curl_easy_perform '.calls, .errors, .return_codes[].name')" \
		'[2,1,"CURLE_FILE_COULDNT_READ_FILE"]'
}

@test "dns: look-ups by name, and those that fail" {
	need_tool getent
	ENDS_WITH=2 traced dns getent ahosts localhost 127.0.0.1 no..name
	assert_eq "$(of getaddrinfo '.calls, .errors, ([.rows[] | [.key.name.value, .errors]] | sort),
		.return_codes[].name')" \
		'[3,1,[["127.0.0.1",0],["localhost",0],["no..name",1]],"EAI_NONAME"]'
}

@test "pthread: mutexes by address, with the time that they made others wait" {
	local mutex

	need_tool cc
	cat >locks.c <<-'END'
		#include <errno.h>
		#include <pthread.h>
		#include <stdio.h>
		#include <time.h>

		static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
		static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
		static pthread_barrier_t held;

		static void *waits(void *arg)
		{
			int refused = pthread_mutex_trylock(&mutex) == EBUSY;

			pthread_barrier_wait(&held);
			pthread_mutex_lock(&mutex);
			pthread_mutex_unlock(&mutex);
			printf("refused %d\n", refused);
			return arg;
		}

		int main(void)
		{
			struct timespec now, part = { .tv_nsec = 200000000 };
			pthread_t thread;

			pthread_barrier_init(&held, NULL, 2);
			for (int i = 0; i < 10; i++) {
				pthread_mutex_lock(&mutex);
				pthread_mutex_unlock(&mutex);
			}
			pthread_mutex_lock(&mutex);
			pthread_create(&thread, NULL, waits, NULL);
			pthread_barrier_wait(&held);
			nanosleep(&part, NULL);
			pthread_mutex_unlock(&mutex);
			pthread_join(thread, NULL);
			clock_gettime(CLOCK_REALTIME, &now);
			now.tv_sec++;
			pthread_mutex_lock(&mutex);
			printf("timed out %d\n", pthread_cond_timedwait(&cond, &mutex, &now) == ETIMEDOUT);
			pthread_mutex_unlock(&mutex);
			printf("mutex %p\n", (void *)&mutex);
			return 0;
		}
	END
	cc -pthread -o locks locks.c
	traced pthread ./locks
	mutex=$(counted mutex)
	assert_eq "$(counted refused) $(counted 'timed out')" "1 1"
	assert_eq "$(of pthread_mutex_lock "(.rows[] | select(.key.mutex.value == \"$mutex\")
		| .calls, .errors)")" "[13,0]"
	# The thread begins to wait some time after the barrier.
	assert_eq "$(of pthread_mutex_lock "(.rows[] | select(.key.mutex.value == \"$mutex\")
		| .total_ns > 20e6)")" "[true]"
	assert_eq "$(of pthread_cond_timedwait '.calls, .errors, (.rows[] | .total_ns > 100e6)')" \
		"[1,0,true]"
	assert_eq "$(of pthread_mutex_trylock '.calls, .errors')" "[1,0]"
	assert_eq "$(of pthread_create '.calls, .errors')" "[1,0]"
}

# --- mpi ----------------------------------------------------------------------------------

@test "mpi: bytes by size of the type, peers, communicators and errors" {
	need_tool mpicc mpirun
	need_library libmpi.so.40
	cat >ranks.c <<-'END'
		#include <mpi.h>
		#include <stdio.h>

		int main(int argc, char **argv)
		{
			static double data[100];
			int rank, size;
			MPI_Datatype three;
			MPI_Comm half;

			MPI_Init(&argc, &argv);
			MPI_Comm_rank(MPI_COMM_WORLD, &rank);
			MPI_Comm_split(MPI_COMM_WORLD, rank, 0, &half);
			MPI_Type_contiguous(3, MPI_INT, &three);
			MPI_Type_commit(&three);
			MPI_Type_size(three, &size);
			for (int i = 0; i < 10; i++)
				if (!rank)
					MPI_Send(data, 100, MPI_DOUBLE, 1, 0, MPI_COMM_WORLD);
				else
					MPI_Recv(data, 100, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			if (!rank)
				MPI_Send(data, 4, three, 1, 0, MPI_COMM_WORLD);
			else
				MPI_Recv(data, 4, three, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			MPI_Bcast(data, 50, MPI_BYTE, 0, MPI_COMM_WORLD);
			for (int i = 0; i < 5; i++)
				MPI_Allreduce(MPI_IN_PLACE, data, 7, MPI_FLOAT, MPI_SUM, half);
			MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
			if (!rank)
				MPI_Send(data, 1, MPI_BYTE, 99, 0, MPI_COMM_WORLD);
			printf("three %d\n", size);
			MPI_Finalize();
			return 0;
		}
	END
	mpicc -o ranks ranks.c 2>compiler || fail "$(<compiler)"
	fsn attach mpi --overhead none
	capture env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
		mpirun --oversubscribe --mca btl self,vader --mca plm isolated -n 2 ./ranks
	said=$output
	assert_eq "$(counted three)" "12
12"
	fsn stats mpi --json
	assert_eq "$(of MPI_Send '.calls, .errors, .return_codes[].name,
		([.rows[] | [.key.dest.value, .calls, .sums.bytes]] | sort)')" \
		'[12,1,"MPI_ERR_RANK",[[1,11,8048],[99,1,1]]]'
	assert_eq "$(of MPI_Recv '([.rows[] | [.key.source.value, .calls, .sums.bytes]])')" '[[[0,11,8048]]]'
	assert_eq "$(of MPI_Bcast '.calls, ([.rows[].sums.bytes] | add)')" "[2,100]"
	assert_eq "$(of MPI_Allreduce '.calls, ([.rows[].sums.bytes] | add),
		([.rows[].key.comm.value] | length)')" "[10,280,2]"
	fsn detach mpi
}

# --- postgres -----------------------------------------------------------------------------

teardown() {
	[[ -z ${cluster-} ]] || rm -rf "$cluster"
	common_teardown
}

@test "postgres: queries by their text, copied bytes, and the server's own probes" {
	local bin=(/usr/lib/postgresql/*/bin)

	need_library libpq.so.5
	need_tool psql
	[[ -x ${bin[0]}/initdb ]] || skip "no postgres server"
	cluster=$(mktemp -d /tmp/funcsnoop-pg.XXXXXX)
	chown 65534:65534 "$cluster"
	as=(setpriv --reuid=65534 --regid=65534 --clear-groups
		env --chdir="$cluster" HOME="$cluster" PGHOST="$cluster" PGUSER=nobody PGDATABASE=postgres)
	capture -t 120 "${as[@]}" "${bin[0]}/initdb" -D "$cluster/db" -N -A trust -U nobody
	start_bg postgres "${as[@]}" "${bin[0]}/postgres" -D "$cluster/db" -k "$cluster" -h '' -c fsync=off
	poll_until -t 60 "${as[@]}" psql -qc 'create table t (n int)' 2>/dev/null
	cat >program <<-END
		library.PQconnectdb.restype = library.PQexec.restype = ctypes.c_void_p
		db = ctypes.c_void_p(call('PQconnectdb', b'host=$cluster user=nobody dbname=postgres'))
		def query(text):
		    result = ctypes.c_void_p(call('PQexec', db, text))
		    status = call('PQresultStatus', result)
		    call('PQclear', result)
		for text in (b'select 1', b'select 1', b'select nothing', b'copy t from stdin'):
		    query(text)
		call('PQputCopyData', db, b'12345\\n', 6)
		call('PQputCopyData', db, b'1\\n', 2)
		call('PQputCopyEnd', db, None)
		call('PQfinish', db)
	END
	counting libpq.so.5 program
	fsn attach server "u:${bin[0]}/postgres:query__start..u:${bin[0]}/postgres:query__done"
	traced postgres "$PYTHON" program.py
	assert_eq "$(of PQexec '.calls, .errors, ([.rows[] | [.key.query.value, .calls]] | sort)')" \
		'[4,0,[["copy t from stdin",1],["select 1",2],["select nothing",1]]]'
	assert_eq "$(of PQputCopyData '.calls, .rows[0].sums.bytes')" "[2,8]"
	assert_eq "$(of PQconnectdb '.calls, .errors')" "[1,0]"
	fsn stats server --json
	# A query that fails is not done.
	assert_json '.[0].functions[0].returns' 3
	fsn detach server
	stop_bg -INT postgres
}

# --- devices, which are not here --------------------------------------------------------------

@test "hip/level-zero/ibverbs: without a device, calls are counted, and errors have names" {
	need_library libamdhip64.so.5 libze_loader.so.1 libibverbs.so.1
	cat >program <<-'END'
		for _ in range(3):
		    call('hipGetDeviceCount', ctypes.byref(ctypes.c_int()))
		call('hipGetLastError')
	END
	counting libamdhip64.so.5 program
	traced hip "$PYTHON" program.py
	assert_eq "$(of hipGetDeviceCount '.calls, .errors, .return_codes[].name')" \
		'[3,3,"hipErrorNoDevice"]'
	echo "call('zeInit', 0)" >program
	counting libze_loader.so.1 program
	traced level-zero "$PYTHON" program.py
	assert_eq "$(of zeInit '.calls, .errors, .return_codes[].name')" \
		'[1,1,"ZE_RESULT_ERROR_UNINITIALIZED"]'
	cat >program <<-'END'
		for _ in range(2):
		    call('ibv_get_device_list', ctypes.byref(ctypes.c_int()))
	END
	counting libibverbs.so.1 program
	traced ibverbs "$PYTHON" program.py
	assert_eq "$(of ibv_get_device_list .calls)" "[2]"
}

@test "opencl: a kernel on the CPU, and a buffer without bytes" {
	need_tool cc
	need_library libOpenCL.so.1 libpocl.so.2
	[[ -e /usr/include/CL/cl.h ]] || skip "needs CL/cl.h"
	cat >cl.c <<-'END'
		#define CL_TARGET_OPENCL_VERSION 300
		#include <CL/cl.h>
		#include <stdio.h>

		int main(void)
		{
			cl_platform_id platform;
			cl_device_id device;
			cl_context context;
			cl_command_queue queue;
			cl_mem buffer;
			char byte = 0;

			if (clGetPlatformIDs(1, &platform, NULL) ||
				clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL))
				return 1;
			context = clCreateContext(NULL, 1, &device, NULL, NULL, NULL);
			queue = clCreateCommandQueueWithProperties(context, device, NULL, NULL);
			buffer = clCreateBuffer(context, CL_MEM_READ_WRITE, 100, NULL, NULL);
			for (int i = 0; i < 5; i++)
				clEnqueueWriteBuffer(queue, buffer, CL_TRUE, i, 1, &byte, 0, NULL, NULL);
			printf("refused %d\n", clEnqueueWriteBuffer(
				queue, buffer, CL_TRUE, 100, 1, &byte, 0, NULL, NULL));
			return clFinish(queue);
		}
	END
	cc -o cl cl.c -l:libOpenCL.so.1
	traced opencl env -u DISPLAY ./cl
	assert_eq "$(counted refused)" -30
	assert_eq "$(of clEnqueueWriteBuffer '.calls, .errors, .return_codes[].name')" \
		'[6,1,"CL_INVALID_VALUE"]'
	assert_eq "$(of clFinish '.calls, .errors')" "[1,0]"
}
