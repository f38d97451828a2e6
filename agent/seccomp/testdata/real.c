// A C program that does what scanners' runtimes do: threads, files, sockets,
// subprocesses. It prints one line per piece of work, the same on every run.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static void must(int ok, const char *what) {
	if (!ok) {
		printf("%s failed: %s\n", what, strerror(errno));
		fflush(stdout);
		_exit(1);
	}
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static long counted, ready;
static sem_t semaphore;

static void *count(void *arg) {
	pthread_mutex_lock(&lock);
	ready++;
	pthread_cond_broadcast(&changed);
	while (ready < 8) pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
	for (int i = 0; i < 10000; i++) {
		pthread_mutex_lock(&lock);
		counted++;
		pthread_mutex_unlock(&lock);
	}
	sem_post(&semaphore);
	return arg;
}

static void threads(void) {
	pthread_t t[8];
	sem_init(&semaphore, 0, 0);
	for (long i = 0; i < 8; i++) {
		int e = pthread_create(&t[i], NULL, count, (void *)i);
		errno = e;
		must(e == 0, "pthread_create");
	}
	for (long i = 0; i < 8; i++) {
		void *back;
		must(pthread_join(t[i], &back) == 0 && back == (void *)i, "pthread_join");
		must(sem_wait(&semaphore) == 0, "sem_wait");
	}
	printf("threads counted %ld\n", counted);
}

static void files(void) {
	char dir[] = "realXXXXXX";
	must(mkdtemp(dir) != NULL && chdir(dir) == 0, "mkdtemp");
	int fd = open("a", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	must(fd >= 0 && ftruncate(fd, 1 << 20) == 0, "open");
	char *m = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	must(m != MAP_FAILED, "mmap");
	memset(m, 'x', 1 << 20);
	must(msync(m, 1 << 20, MS_SYNC) == 0 && munmap(m, 1 << 20) == 0, "msync");
	must(link("a", "b") == 0 && symlink("b", "c") == 0 && rename("a", "d") == 0, "link");
	must(chmod("d", 0640) == 0 && utimensat(AT_FDCWD, "d", NULL, 0) == 0, "chmod");
	struct stat st;
	must(stat("c", &st) == 0, "stat");
	int names = 0;
	DIR *d = opendir(".");
	while (readdir(d)) names++;
	closedir(d);
	must(flock(fd, LOCK_EX) == 0, "flock");
	printf("files %d names, %lld bytes\n", names, (long long)st.st_size);
	must(unlink("b") == 0 && unlink("c") == 0 && unlink("d") == 0 && chdir("..") == 0 && rmdir(dir) == 0, "unlink");
}

static void *serve(void *arg) {
	int c = accept4(*(int *)arg, NULL, NULL, SOCK_CLOEXEC);
	must(c >= 0, "accept4");
	char b[64];
	ssize_t n = recv(c, b, sizeof b, 0);
	send(c, b, n, 0);
	close(c);
	return NULL;
}

static void sockets(int family, struct sockaddr *addr, socklen_t len, const char *name) {
	int l = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0), c = socket(family, SOCK_STREAM | SOCK_NONBLOCK, 0);
	must(l >= 0 && c >= 0, "socket");
	must(bind(l, addr, len) == 0 && listen(l, 8) == 0 && getsockname(l, addr, &len) == 0, "bind");
	pthread_t t;
	must(pthread_create(&t, NULL, serve, &l) == 0, "pthread_create");
	must(connect(c, addr, len) == 0 || errno == EINPROGRESS, "connect");
	int e = epoll_create1(0);
	struct epoll_event ev = {.events = EPOLLOUT};
	must(epoll_ctl(e, EPOLL_CTL_ADD, c, &ev) == 0 && epoll_wait(e, &ev, 1, 5000) == 1, "epoll");
	must(send(c, "hello", 5, MSG_NOSIGNAL) == 5, "send");
	struct pollfd p = {.fd = c, .events = POLLIN};
	char b[64];
	must(poll(&p, 1, 5000) == 1 && recv(c, b, sizeof b, 0) == 5, "recv");
	pthread_join(t, NULL);
	close(c), close(l), close(e);
	printf("%s socket echoed %.5s\n", name, b);
}

static void names(void) {
	struct addrinfo *a, hint = {.ai_flags = AI_NUMERICHOST};
	must(getaddrinfo("127.0.0.1", "80", &hint, &a) == 0, "getaddrinfo");
	freeaddrinfo(a);
	struct ifaddrs *i;
	must(getifaddrs(&i) == 0, "getifaddrs");
	freeifaddrs(i);
	printf("names resolved, interfaces listed\n");
}

static void children(char *self) {
	int p[2];
	char b[64] = {0};
	must(pipe2(p, O_CLOEXEC) == 0, "pipe2");
	pid_t pid = fork();
	must(pid >= 0, "fork");
	if (pid == 0) {
		dup2(p[1], 1);
		execl(self, self, "child", NULL);
		_exit(127);
	}
	close(p[1]);
	must(read(p[0], b, sizeof b) == 6, "read");
	int status;
	must(waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 7, "waitpid");
	printf("fork and exec said %s", b);

	char *argv[] = {self, "child", NULL};
	fflush(stdout);
	int e = posix_spawn(&pid, self, NULL, NULL, argv, environ);
	errno = e;
	must(e == 0, "posix_spawn");
	must(waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 7, "waitpid");
	FILE *none = popen("exit 0", "r"); // a shell may be missing; that is an answer too
	if (none) pclose(none);
}

static volatile sig_atomic_t rang;
static void ring(int sig) { rang = sig; }

static void timers(void) {
	timer_t id;
	struct sigevent sev = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
	struct itimerspec in = {.it_value = {.tv_nsec = 1000000}};
	sigset_t none, usr1;
	signal(SIGUSR1, ring);
	sigemptyset(&none), sigemptyset(&usr1), sigaddset(&usr1, SIGUSR1);
	sigprocmask(SIG_BLOCK, &usr1, NULL);
	must(timer_create(CLOCK_MONOTONIC, &sev, &id) == 0 && timer_settime(id, 0, &in, NULL) == 0, "timer_create");
	while (!rang) sigsuspend(&none);
	printf("timer rang\n");
}

static void status(void) {
	char line[256];
	FILE *f = fopen("/proc/self/status", "r");
	while (f && fgets(line, sizeof line, f))
		if (!strncmp(line, "Seccomp:", 8)) fputs(line, stderr);
	if (f) fclose(f);
}

int main(int argc, char **argv) {
	if (argc > 1) {
		printf("child\n");
		return 7;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	status();
	threads();
	files();
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	sockets(AF_INET, (struct sockaddr *)&in, sizeof in, "inet");
	struct sockaddr_un un = {.sun_family = AF_UNIX, .sun_path = "real.sock"};
	sockets(AF_UNIX, (struct sockaddr *)&un, sizeof un, "unix");
	unlink("real.sock");
	names();
	children("/proc/self/exe");
	timers();
	must(personality(0xffffffff) >= 0, "personality");
	int ev = eventfd(0, EFD_CLOEXEC), mem = memfd_create("m", MFD_CLOEXEC);
	must(ev >= 0 && mem >= 0 && write(mem, "x", 1) == 1, "memfd_create");
	printf("done\n");
	return 0;
}
