// Threads that work on one step together.
#pragma once
#include <sched.h>

#include <atomic>
#include <cstdint>
#include <memory>
#if defined(__x86_64__)
#define PAUSE() __builtin_ia32_pause()
#else
#define PAUSE() std::atomic_signal_fence(std::memory_order_seq_cst)
#endif
#ifdef _OPENMP
#include <omp.h>
#endif

class Team {  // threads that meet at a barrier; they spin, since work between two barriers takes microseconds
  public:
    explicit Team(int64_t threads) : threads(threads) {}
    void wait() {
        if (threads == 1) return;
        int64_t round = rounds.load(std::memory_order_acquire);
        if (arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == threads) {
            arrived.store(0, std::memory_order_relaxed);
            rounds.store(round + 1, std::memory_order_release);
            return;
        }
        for (int spins = 0; rounds.load(std::memory_order_acquire) == round; ++spins) {
            if (spins < 2000) PAUSE();
            else sched_yield();
        }
    }
    int64_t threads;

  private:
    alignas(64) std::atomic<int64_t> arrived{0};
    alignas(64) std::atomic<int64_t> rounds{0};
};

inline std::unique_ptr<float[]> floats(int64_t count) { return std::unique_ptr<float[]>(new float[count + 32]); }
