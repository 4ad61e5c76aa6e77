// The physical limit: what it costs to write a line to every connection, and nothing else.
// bare_loop PORT: who says "P" first is a publisher, and each read of what it says goes to all who said "S".
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { FILES_MAX = 65536, EVENTS_MAX = 512 };
static int subscribers[FILES_MAX], position[FILES_MAX], count;
static char kind[FILES_MAX];

static void forget(int fd) {
    if (kind[fd] == 'S') {
        int last = subscribers[--count];
        subscribers[position[fd]] = last;
        position[last] = position[fd];
    }
    kind[fd] = 0;
    close(fd);
}

int main(int argc, char **argv) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(argc > 1 ? atoi(argv[1]) : 0)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int one = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), epoll = epoll_create1(0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 4096)) {
        perror("bare_loop");
        return 1;
    }
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listener}, events[EVENTS_MAX];
    epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event);
    static char data[65536];
    for (;;) {
        int found = epoll_wait(epoll, events, EVENTS_MAX, -1);
        for (int i = 0; i < found; i++) {
            int fd = events[i].data.fd;
            if (fd == listener) {
                while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
                    if (fd >= FILES_MAX) {
                        close(fd);
                        continue;
                    }
                    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
                    event.events = EPOLLIN;
                    event.data.fd = fd;
                    epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
                }
                continue;
            }
            ssize_t size = read(fd, data, sizeof data);
            if (size <= 0) {
                if (size < 0 && (errno == EAGAIN || errno == EINTR)) continue;
                forget(fd);
                continue;
            }
            char *begin = data;
            if (!kind[fd]) {
                kind[fd] = *begin++;
                size--;
                if (kind[fd] == 'S') {
                    position[fd] = count;
                    subscribers[count++] = fd;
                }
                if (write(fd, "!", 1) < 0) continue;
            }
            if (kind[fd] == 'P' && size > 0)
                for (int j = 0; j < count; j++)
                    if (send(subscribers[j], begin, size, MSG_NOSIGNAL) < 0) continue;
        }
    }
}
