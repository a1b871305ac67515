RUN = "train"
SETTINGS = {"train": {"optimizer": "muon"}}


def replacements(student):
    def orthogonalise(stack):
        import torch

        return torch.stack([student.orthogonalise(matrix) for matrix in stack])

    return {"tinylm.train.muon.orthogonalise": orthogonalise}
