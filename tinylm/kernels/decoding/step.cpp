// The step that Python calls: which thread does what.
#include "pass.h"

namespace {

constexpr int64_t APART = 8;  // rows of a thread that takes rows instead of outputs

// Whether threads may take rows instead of outputs: no row reads what another one writes in this step, and each thread
// has enough of them to pay for reading all weights itself.  They then meet once per step, not at each product.
bool apart(const Step& s, int64_t threads) {
    if (threads == 1 || s.rows < threads * APART || s.outputs != s.rows) return false;
    for (int64_t row = 0; row < s.rows; ++row)
        if (s.wanted[row] != row || (row && s.sequences[row] <= s.sequences[row - 1])) return false;
    return true;
}

Step rows_of(const Step& all, int64_t thread, int64_t threads, int64_t vocab) {
    const int64_t first = all.rows * thread / threads, count = all.rows * (thread + 1) / threads - first;
    Step mine = all;
    mine.rows = mine.outputs = count;
    mine.threads = 1;
    mine.tokens += first;
    mine.positions += first;
    mine.sequences += first;
    mine.logits += first * vocab;
    mine.asked.values += first * all.asked.k;
    mine.asked.ids += first * all.asked.k;
    if (mine.asked.log_sums) mine.asked.log_sums += first;
    return mine;  // `wanted` counts from 0 for each
}

template <class Kind> int64_t run(const Model& model, const Step& step) {
    std::atomic<int64_t> finite{1};
    std::unique_ptr<Pass<Kind>> shared;
#pragma omp parallel num_threads(step.threads)
    {
        int64_t thread = 0, threads = 1;
#ifdef _OPENMP
        thread = omp_get_thread_num();
        threads = omp_get_num_threads();  // there may be fewer than were asked for
#endif
        if (apart(step, threads)) {
            const Step mine = rows_of(step, thread, threads, model.vocab);
            Pass<Kind> pass(model, mine);
            pass.run(0);
            if (!pass.finite) finite = 0;
        } else {
#pragma omp single
            {
                shared.reset(new Pass<Kind>(model, step));
                shared->team.threads = threads;
            }
            shared->run(thread);
            if (!shared->finite) finite = 0;
        }
    }
    return finite;
}

}  // namespace

// Returns whether all logits that were asked about are finite.
extern "C" int64_t tinylm_step(const Model* model, const Step* step) {
    switch (model->precision) {
        case 0: return run<Fp32>(*model, *step);
        case 1: return run<Bf16>(*model, *step);
        default: return run<Int8>(*model, *step);
    }
}

// Whether the processor has instructions that multiply bf16.
extern "C" int64_t tinylm_bf16() {
#if defined(__AVX512BF16__)
    return 1;
#else
    return 0;
#endif
}
