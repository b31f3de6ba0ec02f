// SPDX-License-Identifier: BSD-2-Clause
// Writing in whole lines, whatever happens in between.
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/util.h"
#include "show/text.h"

/*
 * Arguments are for the owner's eyes, as the maps that they come from. Lines go to the
 * end, wherever that is by then: a file may be emptied by others meanwhile.
 */
static int open_file(const char *path, struct sink *s, struct err *err)
{
	const int flags = O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY |
		(s->trailer ? 0 : O_APPEND);

	s->fd = open(path, flags | O_EXCL, 0600);
	if (s->fd >= 0)
		s->created = path;
	else if (errno == EEXIST)
		s->fd = open(path, flags, 0600);
	if (s->fd < 0)
		return err_sys(err, -errno, "cannot open '%s'", path);
	s->owned = true;
	return 0;
}

int sink_open(const char *path, struct sink *s, struct err *err)
{
	struct stat st;
	int code;

	s->name = path ? path : "output";
	s->fd = path ? file_descriptor(path) : STDOUT_FILENO;
	code = s->fd < 0 ? open_file(path, s, err) : 0;
	if (code)
		return code;
	if (fstat(s->fd, &st))
		return err_sys(err, -errno, "cannot write '%s'", s->name);
	s->regular = s->owned && S_ISREG(st.st_mode);
	return 0;
}

int sink_begin(struct sink *s, struct err *err)
{
	s->created = NULL;
	if (s->regular && ftruncate(s->fd, 0))
		return err_sys(err, -errno, "cannot write '%s'", s->name);
	return 0;
}

/* Pipes take up to PIPE_BUF bytes whole or not at all (pipe(7)): as many lines as that. */
static size_t piece(const char *buf, size_t len)
{
	const char *end;

	if (len <= PIPE_BUF)
		return len;
	end = memrchr(buf, '\n', PIPE_BUF);
	if (!end)
		end = memchr(buf, '\n', len);
	return end ? (size_t)(end + 1 - buf) : len;
}

/* Whoever has the other end may have made it one that doesn't wait (O_NONBLOCK). */
static void wait_for_room(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLOUT };

	poll(&p, 1, 100);
}

/* *@done counts what was written, also when the rest was not. */
static int write_all(const struct sink *s, const char *buf, size_t len, size_t *done)
{
	for (*done = 0; *done < len;) {
		ssize_t n = write(s->fd, buf + *done, len - *done);

		if (n < 0 && errno != EINTR && errno != EAGAIN)
			return -errno;
		if (n < 0) {
			if (s->give_up && s->give_up())
				return -EINTR;
			if (errno == EAGAIN)
				wait_for_room(s->fd);
			continue;
		}
		*done += n;
	}
	return 0;
}

/* A document, its trailer behind it in one go. A write that fails is undone. */
static int write_document(struct sink *s)
{
	size_t body = s->out.len, tail = strlen(s->trailer), done;
	int code;

	out_str(&s->out, s->trailer);
	code = write_all(s, s->out.buf, s->out.len, &done);
	s->out.len = body;
	if (!code) {
		s->at += body;
		return lseek(s->fd, s->at, SEEK_SET) < 0 ? -errno : 0;
	}
	/* A document that has not begun does not end. */
	if (!s->at)
		tail = 0;
	if (lseek(s->fd, s->at, SEEK_SET) == s->at && tail)
		write_all(s, s->trailer, tail, &done);
	if (ftruncate(s->fd, s->at + tail))
		return code;
	return code;
}

/* Takes back the beginning of a line, unless others have appended to the file since. */
static void cut_file(const struct sink *s, size_t len)
{
	off_t end = lseek(s->fd, 0, SEEK_CUR);
	struct stat st;

	if (len && !fstat(s->fd, &st) && S_ISREG(st.st_mode) && st.st_size == end &&
		!ftruncate(s->fd, end - (off_t)len))
		lseek(s->fd, end - (off_t)len, SEEK_SET);
}

/* Others may write to what is open, too: at the end, as everybody does. */
static int write_pieces(struct sink *s)
{
	const char *buf = s->out.buf;
	size_t len = s->out.len, n, done = 0;
	int code = 0;

	for (; !code && buf && len; buf += n, len -= n) {
		n = piece(buf, len);
		code = write_all(s, buf, n, &done);
	}
	if (code)
		cut_file(s, done);
	return code;
}

int sink_flush(struct sink *s, struct err *err)
{
	int code;

	if (s->out.failed)
		return err_sys(err, -ENOMEM, "cannot write '%s'", s->name);
	if (!s->out.len)
		return 0;
	code = s->regular && s->trailer ? write_document(s) : write_pieces(s);
	s->bytes += s->out.len;
	s->out.len = 0;
	return code ? err_sys(err, code, "cannot write '%s'", s->name) : 0;
}

int sink_end(struct sink *s, struct err *err)
{
	if (!s->trailer)
		return sink_flush(s, err);
	out_str(&s->out, s->trailer);
	s->trailer = NULL;
	return sink_flush(s, err);
}

void sink_done(struct sink *s)
{
	out_done(&s->out);
	if (s->created)
		unlink(s->created);
	if (s->owned)
		close_fd(s->fd);
}
