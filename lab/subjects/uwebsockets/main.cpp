// uWebSockets as its documentation broadcasts: each socket subscribes to its topic, and published
// messages are sent at the end of the event loop iteration.
//
//   uwebsockets --listen 127.0.0.1:8080 [--source SOURCE] [--back-pressure BYTES]
//               [--deflate none|shared|dedicated|prepared]
//
// `--deflate` compresses events for subscribers that offer permessage-deflate:
// - shared: for each subscriber again, with SHARED_COMPRESSOR, as in its example Broadcast
// - dedicated: in a context for each subscriber of 4 KB, as its documentation advises for small messages
// - prepared: once for all subscribers, with publishPrepared, which its source calls experimental
//
// uWebSockets is in no package registry. Check out uNetworking/uWebSockets and, in that folder,
// uNetworking/uSockets, install zlib with its headers (zlib1g-dev), and build:
//
//   make -C uWebSockets/uSockets
//   g++ -std=c++20 -O3 -flto -IuWebSockets/src -IuWebSockets/uSockets/src main.cpp \
//       "-DVERSION=\"$(git -C uWebSockets describe --tags)\"" uWebSockets/uSockets/uSockets.a -lz -o uwebsockets
#include <App.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>

namespace {

#ifndef VERSION
#define VERSION "of an unknown version"
#endif

constexpr std::string_view ROW_TAIL =
    R"(,1,116.9232297,40.676318,4745,"c00070",78,"32.07","1970-01-01T00:00:00Z","column 1","another field"])";
constexpr int TICKS_IN_A_TURN_MAX = 16;
constexpr unsigned int PUBLISHER_TIMEOUT_S = 10;

long long monotonic_us() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000LL + now.tv_nsec / 1'000;
}

struct Client {
  std::string topic;
};
using Socket = uWS::WebSocket<false, true, Client>;

// Publishes events, compressed as `--deflate` says.
struct Publisher {
  uWS::App *app;
  std::string deflate = "none";

  uWS::CompressOptions compression() const {
    if (deflate == "none") return uWS::DISABLED;
    return deflate == "dedicated" ? uWS::DEDICATED_COMPRESSOR_4KB : uWS::SHARED_COMPRESSOR;
  }

  void publish(std::string_view topic, std::string_view event) {
    if (deflate == "prepared") {
      auto message = uWS::Loop::get()->prepareMessage(event, uWS::OpCode::TEXT);
      app->publishPrepared(topic, message);
    } else {
      app->publish(topic, event, uWS::OpCode::TEXT, deflate != "none");
    }
  }
};

struct Source {
  std::string kind = "none";
  std::map<std::string, std::string> of;

  explicit Source(const std::string &text) {
    std::istringstream words(text);
    std::getline(words, kind, ',');
    for (std::string pair; std::getline(words, pair, ',');) {
      auto equals = pair.find('=');
      of[pair.substr(0, equals)] = pair.substr(equals + 1);
    }
  }
  long long number(const char *name) { return std::atoll(of[name].c_str()); }
};

// Rows of experiment A, or dummies of experiment C, at a fixed interval. The timer of the event loop
// has a resolution of a millisecond, so late ticks are caught up.
struct Ticker {
  Publisher *publisher;
  Source source;
  std::set<Socket *> sockets;
  long long due = 0, interval = 0, sequence = 0;
  std::string dummy;

  void begin() {
    if (source.kind == "none") return;
    interval = source.number("interval_us");
    due = source.kind == "constant" ? source.number("start_us") : monotonic_us();
    if (long long passed = monotonic_us() - due; passed > 0) {
      due += (passed + interval - 1) / interval * interval;
    }
    dummy = std::string(source.number("size"), 'x');
    us_timer_t *timer = us_create_timer((us_loop_t *)uWS::Loop::get(), 0, sizeof(Ticker *));
    *(Ticker **)us_timer_ext(timer) = this;
    us_timer_set(timer, [](us_timer_t *it) { (*(Ticker **)us_timer_ext(it))->turn(); }, 1, 1);
  }

  void turn() {
    for (int ticks = 0; ticks < TICKS_IN_A_TURN_MAX && due <= monotonic_us(); ticks++) {
      if (source.kind == "constant") {
        publisher->publish(source.of["topic"], rows(source.number("batch")));
      } else {
        for (Socket *socket : sockets) {
          if (socket->getBufferedAmount() == 0) socket->send(dummy, uWS::OpCode::TEXT);
        }
      }
      due += interval;
    }
  }

  std::string rows(long long batch) {
    std::string text = "[";
    for (long long row = 0; row < batch; row++) {
      text += row == 0 ? "[" : ",[";
      text += std::to_string(++sequence);
      text += ',';
      text += std::to_string(due);
      text += ROW_TAIL;
    }
    return text += ']';
  }
};

}  // namespace

int main(int count, char **words) {
  if (count == 2 && std::string_view(words[1]) == "--version") {
    std::puts("uWebSockets " VERSION);
    return 0;
  }
  std::string listen = "127.0.0.1:8080", source = "none", deflate = "none";
  unsigned int back_pressure = 64 * 1024;  // its default
  for (int at = 1; at + 1 < count; at += 2) {
    std::string name = words[at];
    if (name == "--listen") listen = words[at + 1];
    if (name == "--source") source = words[at + 1];
    if (name == "--back-pressure") back_pressure = std::atoi(words[at + 1]);
    if (name == "--deflate") deflate = words[at + 1];
  }
  auto colon = listen.rfind(':');
  uWS::App app;
  Publisher publisher{&app, deflate};
  Ticker ticker{&publisher, Source(source), {}};
  uWS::App::WebSocketBehavior<Client> behavior;
  behavior.compression = publisher.compression();
  behavior.maxBackpressure = back_pressure;
  behavior.upgrade = [](auto *response, auto *request, auto *context) {
    response->template upgrade<Client>({std::string(request->getUrl().substr(1))},
                                       request->getHeader("sec-websocket-key"),
                                       request->getHeader("sec-websocket-protocol"),
                                       request->getHeader("sec-websocket-extensions"), context);
  };
  behavior.open = [&](Socket *socket) {
    socket->subscribe(socket->getUserData()->topic);
    ticker.sockets.insert(socket);
  };
  behavior.message = [](Socket *socket, std::string_view message, uWS::OpCode code) {
    socket->send(message, code);
  };
  behavior.close = [&](Socket *socket, int, std::string_view) { ticker.sockets.erase(socket); };
  app.get("/healthz", [](auto *response, auto *) { response->end("ok\n"); });
  app.ws<Client>("/*", std::move(behavior));
  app.post("/*", [&publisher](auto *response, auto *request) {
    response->onAborted([] {});
    response->onData([&publisher, response, topic = std::string(request->getUrl().substr(1)),
                      rest = std::string(), events = 0](std::string_view bytes, bool last) mutable {
      for (size_t end; (end = bytes.find('\n')) != bytes.npos; bytes.remove_prefix(end + 1)) {
        std::string_view line = bytes.substr(0, end);
        if (!rest.empty()) {
          rest += line;
          line = rest;
        }
        if (!line.empty()) {
          publisher.publish(topic, line);
          events++;
        }
        rest.clear();
      }
      rest += bytes;
      // uWebSockets ends a request that sends less than 16 KiB/s. Here any data keeps a request open.
      us_socket_timeout(0, (us_socket_t *)response, last ? 0 : PUBLISHER_TIMEOUT_S);
      if (last) response->end("{\"count\":" + std::to_string(events) + "}");
    });
  });
  app.listen(listen.substr(0, colon), std::atoi(listen.substr(colon + 1).c_str()), [&](auto *socket) {
    if (!socket) {
      std::fprintf(stderr, "uwebsockets cannot listen at %s\n", listen.c_str());
      std::exit(1);
    }
  });
  ticker.begin();
  app.run();
}
