"""The architectures of the CLLD track."""

from stages.tracks.clld.architecture import ClassifierArchitecture
from stages.tracks.clld.architectures import encoder, textcnn

ARCHITECTURES: dict[str, ClassifierArchitecture] = {module.ARCHITECTURE.name: module.ARCHITECTURE
                                                    for module in (encoder, textcnn)}


def architecture_of(source: str) -> ClassifierArchitecture:
    """Return the architecture that ``encoder`` of a model names: one by its name, or a source of encoders."""
    return ARCHITECTURES.get(source, encoder.ARCHITECTURE)
