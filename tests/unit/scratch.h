/* SPDX-License-Identifier: BSD-2-Clause */
/* A directory for files of one test, removed at exit, and small ELF files built in it. */
#ifndef FUNCSNOOP_SCRATCH_H
#define FUNCSNOOP_SCRATCH_H

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tap.h"

static char scratch_dir[PATH_MAX];

static int scratch_unlink(
	const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

static void scratch_done(void)
{
	nftw(scratch_dir, scratch_unlink, 16, FTW_DEPTH | FTW_PHYS);
}

static void scratch_die(const char *what)
{
	printf("Bail out! %s: %s\n", what, strerror(errno));
	exit(1);
}

static void scratch_begin(void)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(scratch_dir, sizeof(scratch_dir), "%s/funcsnoop-unit-XXXXXX",
		tmp ? tmp : "/tmp");
	if (!mkdtemp(scratch_dir))
		scratch_die(scratch_dir);
	atexit(scratch_done);
}

/* The path of @name in the directory; valid for the next 16 calls. */
static const char *scratch(const char *name)
{
	static char paths[16][2 * PATH_MAX];
	static unsigned int next;
	char *path = paths[next++ % 16];

	snprintf(path, sizeof(paths[0]), "%s/%s", scratch_dir, name);
	return path;
}

/* Creates the parent directories of @name, and writes a file there. */
__attribute__((unused)) static const char *scratch_file(
	const char *name, const void *bytes, size_t size)
{
	const char *path = scratch(name);
	char dir[2 * PATH_MAX];
	FILE *f;

	strcpy(dir, path);
	for (char *p = dir + strlen(scratch_dir) + 1; (p = strchr(p, '/')); *p++ = '/') {
		*p = '\0';
		mkdir(dir, 0755);
	}
	f = fopen(path, "w");
	if (!f || fwrite(bytes, 1, size, f) != size || fclose(f))
		scratch_die(path);
	return path;
}

/* Runs a command line in the directory; a command that fails ends the test. */
__attribute__((format(printf, 1, 2), unused)) static void scratch_run(
	const char *fmt, ...)
{
	char line[8192];
	va_list ap;
	int n;

	n = snprintf(line, sizeof(line), "cd '%s' && ", scratch_dir);
	va_start(ap, fmt);
	vsnprintf(line + n, sizeof(line) - n, fmt, ap);
	va_end(ap);
	if (system(line) != 0)
		scratch_die(line);
}

/*
 * True if files can be opened through another process's root. An emulator of system calls
 * may lack openat2(2): then the test @what is skipped.
 */
__attribute__((unused)) static bool scratch_has_openat2(const char *what)
{
	struct open_how how = { .flags = O_PATH | O_CLOEXEC };
	int fd = syscall(SYS_openat2, AT_FDCWD, scratch_dir, &how, sizeof(how));

	if (fd >= 0)
		close(fd);
	else if (errno == ENOSYS)
		ok(true, "%s # SKIP needs openat2(2)", what);
	return fd >= 0 || errno != ENOSYS;
}

/* All of a file; free() it. */
__attribute__((unused)) static uint8_t *scratch_read(const char *path, size_t *ret_size)
{
	struct stat st;
	FILE *f = fopen(path, "r");
	uint8_t *bytes;

	if (!f || fstat(fileno(f), &st) < 0)
		scratch_die(path);
	bytes = malloc(st.st_size + 1);
	if (!bytes || fread(bytes, 1, st.st_size, f) != (size_t)st.st_size)
		scratch_die(path);
	fclose(f);
	*ret_size = st.st_size;
	return bytes;
}

#endif
